//go:build !linux && !darwin

package main

import "os"

// widthOf returns 0: the columns of the terminal are unknown.
func widthOf(*os.File) int { return 0 }
