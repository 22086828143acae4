package chaos

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
)

// PolicyService answers what a Postfix asks at a step of a session: SMTPD_POLICY_README of
// Postfix has the protocol. The function gets the attributes, such as "recipient", and
// returns an action, such as "DUNNO" or "450 4.2.0 come back later".
func PolicyService(decide func(attributes map[string]string) (action string)) (net.Listener, error) {
	return answer(func(conn net.Conn) {
		attributes := make(map[string]string)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), "="); ok {
				attributes[name] = value
				continue
			}
			if _, err := fmt.Fprintf(conn, "action=%s\n\n", decide(attributes)); err != nil {
				return
			}
			clear(attributes)
		}
	})
}

// LoginService lets a Postfix accept one login, by the protocol of Dovecot's authentication.
func LoginService(username, password string) (net.Listener, error) {
	return answer(func(conn net.Conn) {
		fmt.Fprint(conn, "VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t0\nDONE\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			fields := strings.Split(lines.Text(), "\t")
			if fields[0] != "AUTH" {
				continue
			}
			encoded := strings.TrimPrefix(fields[len(fields)-1], "resp=")
			raw, _ := base64.StdEncoding.DecodeString(encoded) // nonsense is no login either
			if bytes.Equal(raw, []byte("\x00"+username+"\x00"+password)) {
				fmt.Fprintf(conn, "OK\t%s\tuser=%s\n", fields[1], username)
			} else {
				fmt.Fprintf(conn, "FAIL\t%s\tuser=%s\n", fields[1], username)
			}
		}
	})
}

// answer serves each connection to a port of its own until the listener is closed.
func answer(serve func(net.Conn)) (net.Listener, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l, nil
}
