package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream/wsstream"
	"k8s.io/apimachinery/pkg/util/proxy"
	translator "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
)

// kubelet answers as a kubelet's server does: WebSockets with a signal for the end of a stream, and those that carry
// port-forward's SPDY, are translated for the container runtime, which serves everything else itself.
func (n *node) kubelet(runtime string) http.Handler {
	streams := n.streams()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := *r.URL
		target.Scheme, target.Host = "http", runtime
		switch {
		case wsstream.IsWebSocketRequestWithStreamCloseProtocol(r):
			options, err := remotecommand.NewOptions(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			translated := translator.Options{Stdin: options.Stdin, Stdout: options.Stdout, Stderr: options.Stderr, Tty: options.TTY}
			translator.NewStreamTranslatorHandler(&target, nil, 0, translated).ServeHTTP(w, r)
		case wsstream.IsWebSocketRequestWithTunnelingProtocol(r):
			passed := proxy.NewUpgradeAwareHandler(&target, nil, false, true, responder{})
			translator.NewTunnelingHandler(passed).ServeHTTP(w, r)
		default:
			streams.ServeHTTP(w, r)
		}
	})
}

type responder struct{}

func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// streams is what a container runtime serves.
func (n *node) streams() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, n, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"],
			options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		found := n.find(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
		if found == nil {
			http.Error(w, "container not found", http.StatusNotFound)
			return
		}
		remotecommand.ServeAttach(w, r, attacher{found}, r.PathValue("pod"), "", r.PathValue("container"), options,
			idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
	})
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, n, r.PathValue("pod"), "", options, idleTimeout, creationTimeout,
			portforward.SupportedProtocols)
	})
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", n.logs)
	mux.HandleFunc("/metrics/resource", n.resourceMetrics)
	mux.HandleFunc("/echo/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s\n", r.Method, r.URL)
	})
	return mux
}

// ExecInContainer runs a command for a client.
func (n *node) ExecInContainer(ctx context.Context, pod, uid, container string, command []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	return execute(ctx, command, in, out, err, tty, resize)
}

// PortForward connects to the port on this machine.
func (n *node) PortForward(ctx context.Context, pod, uid string, port int32, stream io.ReadWriteCloser) error {
	connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

type attacher struct{ container *container }

func (a attacher) AttachContainer(ctx context.Context, pod, uid, name string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	go func() {
		for range resize {
		}
	}()
	a.container.attach(ctx, in, out)
	return nil
}

func (n *node) logs(w http.ResponseWriter, r *http.Request) {
	found := n.find(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if found == nil {
		http.Error(w, fmt.Sprintf("container %q in pod %q is not available", r.PathValue("container"), r.PathValue("pod")), http.StatusBadRequest)
		return
	}
	query := r.URL.Query()
	number := func(name string, missing int) int {
		if value, err := strconv.Atoi(query.Get(name)); err == nil {
			return value
		}
		return missing
	}
	left := number("limitBytes", 1<<30)
	since := time.Time{}
	if seconds := number("sinceSeconds", 0); seconds > 0 {
		since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	flusher, _ := w.(http.Flusher)
	w.WriteHeader(http.StatusOK)
	found.lock.Lock()
	defer found.lock.Unlock()
	at := max(0, len(found.lines)-number("tailLines", len(found.lines)))
	go func() {
		<-r.Context().Done()
		found.changed.Broadcast()
	}()
	for r.Context().Err() == nil {
		for ; at < len(found.lines); at++ {
			text := found.lines[at].text
			if found.lines[at].at.Before(since) {
				continue
			}
			if query.Get("timestamps") == "true" {
				text = found.lines[at].at.UTC().Format(time.RFC3339Nano) + " " + text
			}
			text = text[:min(len(text), left)]
			left -= len(text)
			_, _ = io.WriteString(w, text)
		}
		flusher.Flush()
		if query.Get("follow") != "true" || found.ended || left == 0 {
			return
		}
		found.changed.Wait()
	}
}

// resourceMetrics says that the node uses half a core and 128 MiB, and each container a tenth of a core and 16 MiB.
func (n *node) resourceMetrics(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	used := func(cores float64) float64 { return cores * now.Sub(n.started).Seconds() }
	sample := func(name, labels string, value float64) {
		fmt.Fprintf(w, "%s%s %f %d\n", name, labels, value, now.UnixMilli())
	}
	sample("node_cpu_usage_seconds_total", "", used(0.5))
	sample("node_memory_working_set_bytes", "", 128<<20)
	n.lock.Lock()
	defer n.lock.Unlock()
	for key := range n.containers {
		part := strings.Split(key, "/")
		labels := fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", part[2], part[0], part[1])
		sample("container_cpu_usage_seconds_total", labels, used(0.1))
		sample("container_memory_working_set_bytes", labels, 16<<20)
		sample("container_start_time_seconds", labels, float64(n.started.Unix()))
	}
}
