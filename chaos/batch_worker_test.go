package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"

	"github.com/almanac-go/almanac"
)

// sending returns a deliverer with points around its calls: those of batches, if the orders ask for them.
func (w *worker) sending(send almanac.Deliverer) almanac.Deliverer {
	if together, ok := send.(almanac.BatchDeliverer); ok && w.Batch > 0 {
		return almanac.Batched(batching{w, together}, w.Batch)
	}
	return w.delivering(send)
}

// batching is a deliverer of batches with points around each call.
type batching struct {
	w    *worker
	next almanac.BatchDeliverer
}

func (b batching) DeliverBatch(ctx context.Context, batch []almanac.Delivery) []error {
	b.w.at(BeforeSend)
	if b.w.StopAt == MidSend {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			b.w.at(MidSend)
			return nil
		}})
	}
	errs := b.next.DeliverBatch(ctx, batch)
	b.w.at(AfterSend)
	return errs
}

// batchType is the media type of a batch.
const batchType = "application/cloudevents-batch+json"

// serveBatch takes the events of a batch, each as a delivery. What they have in common is in an entry.
func (r *Receiver) serveBatch(w http.ResponseWriter, req *http.Request, common Entry, body []byte) {
	var elements []json.RawMessage
	if json.Unmarshal(body, &elements) != nil || common.Key != "" { // a batch has no key of its own
		r.refuse(w)
		return
	}
	entries := make([]Entry, len(elements))
	for i, element := range elements {
		var event struct {
			ID   string
			Data struct{ Message string }
		}
		if json.Unmarshal(element, &event) != nil {
			r.refuse(w)
			return
		}
		e := entry(event.Data.Message, element)
		e.Key, e.Request, e.At, e.Clock, e.Signed = event.ID, req.Header.Get("Webhook-Id"), common.At, common.Clock, common.Signed
		entries[i] = e
	}
	r.mu.Lock()
	first, answer := r.arrived, r.answer
	r.arrived += len(entries)
	r.mu.Unlock()
	w.WriteHeader(http.StatusProcessing)
	var failed []map[string]string
	for i := range entries {
		entries[i].Status = answer(first+i, entries[i])
		if entries[i].Status/100 != 2 {
			failed = append(failed, map[string]string{"id": entries[i].Key})
		}
	}
	r.mu.Lock()
	r.ledger = append(r.ledger, entries...)
	r.mu.Unlock()
	switch {
	case slices.ContainsFunc(entries, func(e Entry) bool { return e.Status == 0 }):
		panic(http.ErrAbortHandler)
	case len(failed) == len(entries):
		w.WriteHeader(entries[0].Status)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"failures": failed}) // the sender sees an answer that is cut off
	}
}
