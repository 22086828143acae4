package chaos

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Port is a TCP port of 127.0.0.1 that is kept for one use: no other program is given it when it
// asks for any free port. Connections to it are refused until a program listens on it that asks
// for it by its number, with SO_REUSEADDR set as servers do.
type Port struct {
	number int
	socket int
}

// ReservePort reserves a free port until Close.
func ReservePort() (*Port, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	p := &Port{socket: socket}
	if err := p.bind(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// bind binds the socket and does not listen, see ip(7) and socket(7): a second socket may be
// bound to the same port if both have SO_REUSEADDR and neither listens.
func (p *Port) bind() error {
	if err := syscall.SetsockoptInt(p.socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(p.socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	name, err := syscall.Getsockname(p.socket)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	p.number = name.(*syscall.SockaddrInet4).Port
	return nil
}

// Address returns the port's host and number, as net.Dial takes them.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Close ends the reservation.
func (p *Port) Close() error { return os.NewSyscallError("close", syscall.Close(p.socket)) }
