package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// wire records what the informers asked and got, and can cut all their connections at once.
type wire struct {
	mu          sync.Mutex
	connections map[net.Conn]struct{}
	lists       []string       // plain LISTs, which a watch-list makes unnecessary
	watches     map[string]int // content type of the answer → how many
	watchLists  int
	cuts        int
}

func newWire() *wire {
	return &wire{connections: map[net.Conn]struct{}{}, watches: map[string]int{}}
}

func (w *wire) attach(config *rest.Config) {
	var dialer net.Dialer
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			w.mu.Lock()
			w.connections[connection] = struct{}{}
			w.mu.Unlock()
		}
		return connection, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{w, next} })
}

func (w *wire) cutConnections() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for connection := range w.connections {
		_ = connection.Close()
	}
	clear(w.connections)
	w.cuts++
}

type recorder struct {
	wire *wire
	next http.RoundTripper
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil || request.Method != http.MethodGet {
		return response, err
	}
	query := request.URL.Query()
	r.wire.mu.Lock()
	defer r.wire.mu.Unlock()
	if query.Get("watch") == "" {
		r.wire.lists = append(r.wire.lists, request.URL.RequestURI())
		return response, err
	}
	if query.Get("sendInitialEvents") == "true" && response.StatusCode == http.StatusOK {
		r.wire.watchLists++
	}
	r.wire.watches[response.Header.Get("Content-Type")]++
	return response, err
}

// verdict says whether the informers got what they prefer, instead of having fallen back to something older.
func (w *wire) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Printf("wire: %d cuts, %d watch-lists, %d lists, watches by content type %v\n", w.cuts, w.watchLists, len(w.lists), w.watches)
	if len(w.lists) > 0 {
		slices.Sort(w.lists)
		return fmt.Errorf("informers fell back to lists: %s", strings.Join(slices.Compact(w.lists), ", "))
	}
	if w.watchLists == 0 {
		return errors.New("no informer used a watch-list")
	}
	for _, want := range []string{"application/json", protobuf + ";stream=watch"} {
		if w.watches[want] == 0 {
			return fmt.Errorf("no watch was answered in %s", want)
		}
	}
	return nil
}
