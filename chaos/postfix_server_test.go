package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Postfix is a mail server of a test's own: Postfix with its own configuration, queue and
// port, in a temporary directory. It shares nothing with the machine's.
type Postfix struct {
	Address string // of its SMTP port
	port    *Port
	dir     string
	command *exec.Cmd
	ended   chan struct{}
}

// NewPostfix starts a Postfix that delivers mails for ada@example.org to a maildir, and
// relays nothing, unless further settings of main.cf say so. Postfix must be installed, and
// wants root.
func NewPostfix(ctx context.Context, settings map[string]string) (_ *Postfix, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("chaos: Postfix starts as root only")
	}
	program, err := exec.LookPath("postfix")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/postfix"); err != nil {
			return nil, fmt.Errorf("chaos: these rows need Debian's package postfix: %w", err)
		}
	}
	port, err := ReservePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "almanac-postfix-")
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	p := &Postfix{Address: port.Address(), port: port, dir: dir, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.write(settings); err != nil {
		return nil, err
	}
	// It makes the directories of the queue.
	if said, err := exec.CommandContext(ctx, program, "-c", p.config(), "check").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("chaos: postfix check: %w\n%s", err, said)
	}
	p.command = exec.Command(masterProgram, "-c", p.config(), "-d")
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	return p, p.await(ctx)
}

// masterProgram starts all others, and ends them.
const masterProgram = "/usr/lib/postfix/sbin/master"

func (p *Postfix) config() string { return filepath.Join(p.dir, "etc") }

// write writes the configuration.
func (p *Postfix) write(settings map[string]string) error {
	owner, err := user.Lookup("postfix")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(owner.Uid) // a number on every Unix
	gid, _ := strconv.Atoi(owner.Gid)
	for _, name := range []string{"etc", "queue", "data", "mail"} {
		if err := os.Mkdir(filepath.Join(p.dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chmod(p.dir, 0o755), os.Chown(filepath.Join(p.dir, "data"), uid, gid),
		os.Chown(filepath.Join(p.dir, "mail"), uid, gid)); err != nil {
		return err
	}
	main := map[string]string{
		"compatibility_level": "3.6", "queue_directory": p.dir + "/queue", "data_directory": p.dir + "/data",
		"maillog_file": p.dir + "/log", "maillog_file_prefixes": p.dir,
		"myhostname": "mail.example.org", "mydestination": "", "inet_interfaces": "127.0.0.1", "inet_protocols": "ipv4",
		"smtpd_peername_lookup": "no", "disable_dns_lookups": "yes", "alias_maps": "", "local_recipient_maps": "",
		"mynetworks": "192.0.2.1", "smtpd_relay_restrictions": "reject_unauth_destination",
		"virtual_mailbox_domains": "example.org", "virtual_mailbox_base": p.dir + "/mail", "virtual_minimum_uid": "1",
		"virtual_mailbox_maps": "inline:{ada@example.org=ada/}", "virtual_uid_maps": "static:" + owner.Uid, "virtual_gid_maps": "static:" + owner.Gid,
	}
	maps.Copy(main, settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(main)) {
		fmt.Fprintf(&text, "%s = %s\n", name, main[name])
	}
	services := p.Address + " inet n - n - - smtpd\n" + `cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`
	return errors.Join(os.WriteFile(p.config()+"/main.cf", []byte(text.String()), 0o600|0o044),
		os.WriteFile(p.config()+"/master.cf", []byte(services), 0o600|0o044))
}

// await waits until Postfix answers.
func (p *Postfix) await(ctx context.Context) error {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.Address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			return fmt.Errorf("chaos: Postfix has ended\n%s", p.Log())
		default:
		}
		if ended := pause(ctx, pollEvery); ended != nil {
			return fmt.Errorf("chaos: Postfix does not answer: %w: %w\n%s", ended, err, p.Log())
		}
	}
}

// Log returns what Postfix has logged.
func (p *Postfix) Log() string {
	text, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Mails returns the mails in ada's maildir, in no order.
func (p *Postfix) Mails() ([]string, error) {
	var mails []string
	for _, name := range []string{"new", "cur"} {
		dir := filepath.Join(p.dir, "mail", "ada", name)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			mails = append(mails, string(text))
		}
	}
	return mails, nil
}

// Drained waits until Postfix has passed on what it has accepted.
func (p *Postfix) Drained(ctx context.Context) error {
	for {
		waiting := 0
		for _, queue := range []string{"incoming", "active", "deferred"} {
			err := filepath.WalkDir(filepath.Join(p.dir, "queue", queue), func(_ string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					waiting++
				}
				if errors.Is(err, fs.ErrNotExist) { // passed on in this moment
					return nil
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		if waiting == 0 {
			return nil
		}
		if ended := pause(ctx, pollEvery); ended != nil {
			return fmt.Errorf("chaos: %d mails wait in Postfix: %w\n%s", waiting, ended, p.Log())
		}
	}
}

// Close ends Postfix and removes its directory.
func (p *Postfix) Close() error {
	if p.command != nil && p.command.Process != nil {
		_ = syscall.Kill(p.command.Process.Pid, syscall.SIGTERM) // it ends its own
		select {
		case <-p.ended:
		case <-time.After(10 * time.Second):
			_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) // its group
			<-p.ended
		}
	}
	return errors.Join(p.port.Close(), os.RemoveAll(p.dir))
}
