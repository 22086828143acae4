package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

const (
	// batchType is the media type of a batch (CloudEvents HTTP protocol binding 1.0.2, section 3.3).
	batchType = "application/cloudevents-batch+json"
	// maxBatch is the most bytes of a batch of several events.
	maxBatch = 256 << 10
)

// failures is what a receiver answers with the status of a success about the events of a batch that it did not
// accept.
type failures struct {
	Failures []failure `json:"failures"`
}

// failure is about one event of a batch.
type failure struct {
	ID         string  `json:"id"`                    // of the CloudEvent: the idempotency key
	Permanent  bool    `json:"permanent,omitempty"`   // whether another attempt is of no use
	RetryAfter float64 `json:"retry_after,omitempty"` // in seconds
}

var _ almanac.BatchDeliverer = (*Deliverer)(nil)

// DeliverBatch posts the events as a JSON array of CloudEvents (batched content mode), for [almanac.Batched]. The
// deliverer must have [WithCloudEvents]. A request with several events has at most 256 KiB. A larger batch takes
// several requests, one after the other, within one timeout. The webhook-id is the request's own, and there is no
// X-Idempotency-Key: the id of each CloudEvent is the key of its event. The signature is that of the whole body.
//
// An answer with 2xx accepts the events, but for those that it names:
//
//	{"failures": [{"id": "...", "permanent": true}, {"id": "...", "retry_after": 60}]}
//
// An event that is named with its id alone is tried again by its policy. An answer with 2xx and any other body
// accepts all events. If "failures" has another form or names an unknown id, or if the answer has more than 256
// KiB, the events of the request are tried again. After 400, 413 and 422, each half of the request is
// sent again in the same attempt. So only the events that the receiver refuses alone fail.
func (d *Deliverer) DeliverBatch(ctx context.Context, batch []almanac.Delivery) []error {
	errs := make([]error, len(batch))
	if d.content.mediaType != cloudType {
		for i := range errs {
			errs[i] = almanac.Permanent(errors.New("webhook: batches are CloudEvents: see WithCloudEvents"))
		}
		return errs
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var of []int // the events of the next request
	var body bytes.Buffer
	flush := func() {
		d.post(ctx, batch, of, body.Bytes(), errs)
		of = nil
		body.Reset()
	}
	for i, delivery := range batch {
		one, err := d.element(delivery)
		if err != nil {
			errs[i] = almanac.Permanent(err)
			continue
		}
		if len(of) > 0 && body.Len()+len(one) >= maxBatch {
			flush()
		}
		body.WriteByte(map[bool]byte{true: '[', false: ','}[len(of) == 0])
		body.Write(one)
		of = append(of, i)
	}
	if len(of) > 0 {
		flush()
	}
	return errs
}

// element returns the CloudEvent of a delivery.
func (d *Deliverer) element(delivery almanac.Delivery) ([]byte, error) {
	body, err := d.content.body(delivery.Event)
	if err == nil && len(body) > maxBody-2 {
		err = fmt.Errorf("%d bytes are more than %d", len(body), maxBody-2)
	}
	if err != nil {
		return nil, fmt.Errorf("webhook: body of event %s: %w", delivery.Event.ID, err)
	}
	return body, nil
}

// post sends the events at some indexes of a batch, and stores their errors.
func (d *Deliverer) post(ctx context.Context, batch []almanac.Delivery, of []int, open []byte, errs []error) {
	began := time.Now()
	body := append(bytes.Clone(open), ']')
	status, failed, err := d.roundTrip(ctx, batch[of[0]].At, body)
	refused := status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
	if refused && len(of) > 1 {
		for _, half := range [][]int{of[:len(of)/2], of[len(of)/2:]} {
			var part bytes.Buffer
			for n, i := range half {
				part.WriteByte(map[bool]byte{true: '[', false: ','}[n == 0])
				one, _ := d.element(batch[i]) // as before
				part.Write(one)
			}
			d.post(ctx, batch, half, part.Bytes(), errs)
		}
		return
	}
	for _, i := range of {
		one, named := failed[batch[i].Event.IdempotencyKey.String()]
		switch {
		case err != nil:
			errs[i] = err
		case named && one.Permanent:
			errs[i] = almanac.Permanent(errElement)
		case named:
			errs[i] = almanac.RetryAfter(time.Duration(min(one.RetryAfter, longestWait.Seconds())*float64(time.Second)), errElement)
		default:
			d.logSuccess(ctx, batch[i], status, time.Since(began))
		}
	}
}

// errElement is the error of an event that the receiver named as failed.
var errElement = errors.New("webhook: receiver did not accept this event of the batch")

// roundTrip sends a batch, and returns the status of the answer, zero if there is none, and the events that it
// names as failed, by key.
func (d *Deliverer) roundTrip(ctx context.Context, at time.Time, body []byte) (status int, failed map[string]failure, err error) {
	request, err := http.NewRequestWithContext(traced(ctx), http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, almanac.Permanent(errors.New("webhook: no request can be made for the URL"))
	}
	id, timestamp := uuid.NewString(), strconv.FormatInt(at.Unix(), 10)
	request.Header = d.header.Clone()
	request.Header.Set("Content-Type", batchType)
	request.Header.Set("User-Agent", "almanac")
	request.Header.Set(headerID, id)
	request.Header.Set(headerTimestamp, timestamp)
	if len(d.keys) > 0 {
		request.Header.Set(headerSignature, sign(d.keys, id, timestamp, body))
	}
	leave, err := d.bulkhead.enter(ctx, d.receiver)
	if err != nil {
		return 0, nil, unanswered(ctx, err)
	}
	defer leave()
	response, err := d.transport.RoundTrip(request)
	if err != nil {
		return 0, nil, unanswered(ctx, err)
	}
	defer response.Body.Close()
	if err := judge(response, at); err != nil {
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
		return response.StatusCode, nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxBatch+1))
	switch {
	case err != nil:
		return response.StatusCode, nil, unanswered(ctx, err)
	case len(answer) > maxBatch:
		return response.StatusCode, nil, errors.New("webhook: the receiver's answer to the batch is too long")
	}
	failed, err = parseFailures(answer, body)
	return response.StatusCode, failed, err
}

// parseFailures returns the failures that an answer to a batch names. The error is transient.
func parseFailures(answer, batch []byte) (map[string]failure, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) != nil || members["failures"] == nil {
		return nil, nil
	}
	var all failures
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, errors.New("webhook: the failures in the receiver's answer are not as documented")
	}
	var sent []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(batch, &sent); err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(sent))
	for _, one := range sent {
		known[one.ID] = true
	}
	failed := make(map[string]failure, len(all.Failures))
	for _, f := range all.Failures {
		if !known[f.ID] {
			return nil, errors.New("webhook: the receiver's answer names an event that was not in the batch")
		}
		failed[f.ID] = f
	}
	return failed, nil
}

// elementsOf returns the events of a body that is a batch, or nil. The headers that say so are not signed.
func elementsOf(body []byte) (elements []json.RawMessage) {
	var events []struct {
		SpecVersion string `json:"specversion"`
	}
	if json.Unmarshal(body, &events) != nil || len(events) == 0 || slices.ContainsFunc(events, func(e struct {
		SpecVersion string `json:"specversion"`
	}) bool {
		return e.SpecVersion == ""
	}) {
		return nil
	}
	_ = json.Unmarshal(body, &elements) // as before
	return elements
}
