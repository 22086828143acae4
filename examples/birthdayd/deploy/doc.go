// Package deploy has the files with which birthdayd is deployed: a Dockerfile, a compose file, a
// unit of systemd and manifests of Kubernetes. Its tests check them against schemas and against
// the programs. The package has no code of its own.
package deploy
