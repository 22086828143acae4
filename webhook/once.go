package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// OnceSchema creates the table in which [Verifier.Once] keeps the keys of accepted
// deliveries. The receiver runs it once, in its own database, with its migrations. Running
// it again changes nothing. The table must be on the search_path of the connections that
// Once gets. Their role needs SELECT, INSERT, UPDATE and DELETE on the table.
const OnceSchema = `
CREATE TABLE IF NOT EXISTS webhook_accepted (
    key         text        PRIMARY KEY,
    accepted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS webhook_accepted_at_idx ON webhook_accepted (accepted_at);
`

const (
	// acceptKey stores a key, unless the key was accepted within the time to live. If
	// another transaction stores the same key, acceptKey waits until that transaction
	// ends. So a duplicate is answered 200 only when the effect is committed. A lock by key
	// without a row would end with the transaction, and a later duplicate would run again.
	//
	// $1 the key, $2 the time to live. Locks the key's row.
	acceptKey = `
INSERT INTO webhook_accepted AS a (key) VALUES ($1)
ON CONFLICT (key) DO UPDATE SET accepted_at = now() WHERE a.accepted_at < now() - $2::interval`

	// forgetKeys deletes a few keys that are older than the time to live, so that the
	// table holds about the deliveries of that time. It waits for no lock.
	//
	// $1 the time to live. Locks the rows that it deletes.
	forgetKeys = `
DELETE FROM webhook_accepted WHERE key IN (
    SELECT key FROM webhook_accepted WHERE accepted_at < now() - $1::interval
    ORDER BY accepted_at LIMIT 10 FOR UPDATE SKIP LOCKED)`
)

// defaultKeep is how long a key is remembered by default. minKeep is the shortest time to live: for that
// long a recorded delivery could be replayed to a receiver whose clock is [Tolerance] ahead or behind.
const (
	defaultKeep = 7 * 24 * time.Hour
	minKeep     = 2 * Tolerance
)

// Beginner begins transactions in the receiver's database. A *pgxpool.Pool is a Beginner.
// So is a *pgx.Conn, for deliveries that come one after the other. The transactions should
// be READ COMMITTED, as by default. In stricter ones PostgreSQL may refuse a duplicate that
// arrives together with the first delivery; it gets 500, and its next attempt 200.
type Beginner interface {
	// Begin starts a transaction, as pgx does.
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Accepted is a delivery that was verified and whose key is new.
type Accepted struct {
	Key    string      // the event's idempotency key, the same on every attempt
	Header http.Header // of the request; only the webhook-id and webhook-timestamp in it are signed
	Body   []byte      // the JSON object that was signed
}

// Effect does what a delivery asks for, in the transaction that remembers its key. It
// neither commits the transaction nor rolls it back.
//
// A nil error commits, and the sender gets 200. Any other error rolls back, so that the next
// attempt of the same delivery runs the effect again. The sender then gets 500, which it retries.
// If the error matches [almanac.ErrPermanent], the sender gets 422, which it does not retry. The
// context ends when the sender hangs up. Effects run concurrently, for different keys.
type Effect func(ctx context.Context, tx pgx.Tx, delivery Accepted) error

// Once returns a handler that runs next once for each key. The handler verifies the delivery, as
// [Verifier.Handler] does. In one transaction of db it stores the key that the signature covers, in
// the table of [OnceSchema], and runs next. It answers 200 to a duplicate without running next.
//
// Deliveries of one key that arrive together wait for the first delivery. When the first
// one commits, the others are duplicates. When it rolls back, the next one runs. A
// process that dies in between leaves neither the key nor the effect. Only changes that
// next makes in its transaction happen once; a mail that next sends can be sent again.
//
// A key is remembered for ttl, by the database's clock; zero means seven days. The ttl
// must be longer than the time for which the sender retries: a delivery whose key was
// forgotten runs again. Each accepted delivery deletes up to ten older keys.
//
// The handler answers 401, 413 and 400 as Verifier.Handler does, and 500 when the transaction fails; it logs that
// failure to [slog.Default]. For a batch (see [Deliverer.DeliverBatch]), next runs for each new key, with the
// CloudEvent as the body, and the answer names those that failed; the others stay. In none of these cases has next
// taken effect, with one exception. If the answer to a commit was lost, next may have taken effect, and the sender's
// next attempt finds out. The handler is safe for concurrent use if db is.
//
// Once returns an error that names each wrong argument: a nil verifier, db or next, or a ttl that
// is neither zero nor at least ten minutes. Within ten minutes a recorded delivery can be replayed.
func (v *Verifier) Once(db Beginner, ttl time.Duration, next Effect) (http.Handler, error) {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("webhook: "+format, args...))
		}
	}
	refuse(v == nil, "no verifier is given")
	refuse(db == nil, "no database is given")
	refuse(next == nil, "no effect is given")
	refuse(ttl != 0 && ttl < minKeep, "a ttl of %v is less than %v, the time in which a recorded delivery can be replayed", ttl, minKeep)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	ttl = cmp.Or(ttl, defaultKeep)
	return v.Handler(&once{db, ttl, next}), nil
}

// once handles verified deliveries.
type once struct {
	db   Beginner
	ttl  time.Duration
	next Effect
}

func (o *once) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	if elements := elementsOf(body); elements != nil {
		o.serveBatch(w, r, elements)
		return
	}
	delivery := Accepted{Key: r.Header.Get(headerID), Header: r.Header, Body: body}
	duplicate, err := o.accept(r.Context(), delivery)
	switch {
	case errors.Is(err, almanac.ErrPermanent):
		slog.WarnContext(r.Context(), "webhook: delivery refused", "idempotency_key", delivery.Key, "error", err)
		http.Error(w, "refused for good", http.StatusUnprocessableEntity)
	case err != nil:
		slog.ErrorContext(r.Context(), "webhook: delivery took no effect", "idempotency_key", delivery.Key, "error", err)
		http.Error(w, "try again", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		// The sender needs only the status.
		_, _ = io.WriteString(w, map[bool]string{false: `{"success":true}`, true: `{"success":true,"duplicate":true}`}[duplicate])
	}
}

// accept runs the effect and stores the key in one transaction, unless the key is stored already.
func (o *once) accept(ctx context.Context, delivery Accepted) (duplicate bool, err error) {
	err = pgx.BeginFunc(ctx, o.db, func(tx pgx.Tx) error {
		duplicate, err = o.acceptIn(ctx, tx, delivery)
		return err
	})
	return duplicate, err
}

func (o *once) acceptIn(ctx context.Context, tx pgx.Tx, delivery Accepted) (duplicate bool, err error) {
	stored, err := tx.Exec(ctx, acceptKey, delivery.Key, o.ttl)
	if err != nil {
		return false, fmt.Errorf("storing the key: %w", err)
	}
	if stored.RowsAffected() == 0 {
		return true, nil
	}
	if _, err := tx.Exec(ctx, forgetKeys, o.ttl); err != nil {
		return false, fmt.Errorf("deleting old keys: %w", err)
	}
	return false, o.next(ctx, tx, delivery)
}

// serveBatch accepts the events of a batch in one transaction, each under a savepoint, so that one that fails
// leaves the others. The keys are stored in their order, so that no two batches wait for each other.
func (o *once) serveBatch(w http.ResponseWriter, r *http.Request, elements []json.RawMessage) {
	deliveries := make([]Accepted, len(elements))
	for i, element := range elements {
		var event struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(element, &event); err != nil || event.ID == "" {
			http.Error(w, "an element has no id", http.StatusBadRequest)
			return
		}
		deliveries[i] = Accepted{Key: event.ID, Header: r.Header, Body: element}
	}
	slices.SortFunc(deliveries, func(a, b Accepted) int { return cmp.Compare(a.Key, b.Key) })
	answer := failures{Failures: []failure{}}
	err := pgx.BeginFunc(r.Context(), o.db, func(tx pgx.Tx) error {
		for _, delivery := range deliveries {
			err := pgx.BeginFunc(r.Context(), tx, func(tx pgx.Tx) error {
				_, err := o.acceptIn(r.Context(), tx, delivery)
				return err
			})
			if err != nil {
				slog.WarnContext(r.Context(), "webhook: delivery took no effect", "idempotency_key", delivery.Key, "error", err)
				answer.Failures = append(answer.Failures, failure{ID: delivery.Key, Permanent: errors.Is(err, almanac.ErrPermanent)})
			}
		}
		return nil
	})
	if err != nil {
		slog.ErrorContext(r.Context(), "webhook: batch took no effect", "error", err)
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the sender sees an answer that is cut off
}
