package chaos

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/Shopify/toxiproxy/v2"

	"github.com/almanac-go/almanac/postgres"
)

// Line is a way to a cluster for the connections of workers that listen, and for no
// others, which can misbehave.
type Line struct{ proxy *toxiproxy.Proxy }

// NewLine makes the workers that get its address listen over a proxy of its own.
func (c *Cluster) NewLine() (*Line, error) {
	l := &Line{newProxy("listeners", c.upstream())}
	return l, l.proxy.Start()
}

// UsedBy gives a worker the address of the line, so that the worker listens over it.
func (l *Line) UsedBy(o *Orders) { o.ListenAt = l.proxy.Listen }

// Die lets nothing through any more, and closes no connection.
func (l *Line) Die() error {
	for _, stream := range []string{"downstream", "upstream"} {
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "timeout", "stream": "` + stream + `", "attributes": {"timeout": 0}}`)); err != nil {
			return err
		}
	}
	return nil
}

// Heal ends what is dead, and lets new connections through.
func (l *Line) Heal(ctx context.Context) { l.proxy.Toxics.ResetToxics(ctx) }

// Close ends the line.
func (l *Line) Close() { l.proxy.Stop() }

// lead leads the connections that listen another way, as a pool's BeforeConnect.
func (o Orders) lead(_ context.Context, c *pgx.ConnConfig) error {
	if o.ListenAt == "" || !strings.HasPrefix(c.RuntimeParams["application_name"], postgres.ListenerName) {
		return nil
	}
	other, err := pgconn.ParseConfig("postgres://" + o.ListenAt)
	if err == nil {
		c.Host, c.Port, c.Fallbacks = other.Host, other.Port, nil
	}
	return err
}
