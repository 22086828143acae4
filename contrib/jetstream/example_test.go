package almanacjetstream_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
)

// onStream runs an example with its own NATS server, an in-memory repository and a due
// event. A program connects to NATS and to PostgreSQL instead.
func onStream(example func(ctx context.Context, s almanacjetstream.Settings)) {
	dir, err := os.MkdirTemp("", "almanac-stream-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	stream, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		panic(err)
	}
	stream.Start()
	defer halt(stream)
	if !stream.ReadyForConnections(patient) {
		panic("the stream's server does not answer")
	}
	conn, err := nats.Connect(stream.ClientURL())
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		panic(err)
	}
	registry, err := almanac.NewRegistry(ping{})
	if err != nil {
		panic(err)
	}
	repository, ada := almanactest.NewRepository(nil), almanactest.User()
	due := almanactest.Event(time.Now(), almanactest.For(ada), almanactest.OfType("PING"), almanactest.Of("2027"))
	if _, _, err := almanactest.CreateUser(context.Background(), repository, ada, due); err != nil {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), patient)
	defer stop()
	example(ctx, almanacjetstream.Settings{JetStream: js, Repository: repository, Registry: registry})
}

// A dispatcher claims and publishes. A worker, here or on another machine, delivers.
func ExampleDispatcher() {
	onStream(func(ctx context.Context, s almanacjetstream.Settings) {
		ctx, stop := context.WithCancel(ctx)
		deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			fmt.Println("delivered", d.Event.Type, d.Event.OccurrenceKey)
			stop()
			return nil
		})
		dispatcher, err := almanacjetstream.NewDispatcher(s)
		if err != nil {
			panic(err)
		}
		worker, err := almanacjetstream.NewWorker(s, almanac.WithDeliverer("ping", deliver))
		if err != nil {
			panic(err)
		}
		var both sync.WaitGroup
		both.Go(func() { _ = dispatcher.Run(ctx) })
		both.Go(func() { _ = worker.Run(ctx) })
		both.Wait()
	})
	// Output: delivered PING 2027
}

// A worker reports its health, like a scheduler.
func ExampleWorker() {
	onStream(func(_ context.Context, s almanacjetstream.Settings) {
		worker, err := almanacjetstream.NewWorker(s, almanac.WithWorkers(40), almanac.WithDeliverer("ping", almanac.DelivererFunc(accept)))
		if err != nil {
			panic(err)
		}
		fmt.Println(worker.Health().Workers, worker.Health().Err())
	})
	// Output: 40 almanac: scheduler is not running
}

// Every setting that is out of bounds is reported.
func ExampleSettings() {
	onStream(func(_ context.Context, s almanacjetstream.Settings) {
		s.MaxWaiting, s.Replicas = 20_000, -1
		_, err := almanacjetstream.NewDispatcher(s)
		fmt.Println(err)
	})
	// Output:
	// almanacjetstream: -1 replicas are not 1 to 5
	// almanacjetstream: 20000 waiting messages are not 1 to 10000
}
