// Package envtest starts Kubernetes API servers for tests: ready in a moment, in memory, empty again after Reset.
//
//	func TestGreeter(t *testing.T) {
//		server := envtest.Start(t)
//		client := kubernetes.NewForConfigOrDie(server.Config())
//		…
//	}
//
// The program is ferrokube on PATH, or what the environment variable FERROKUBE_BINARY names.
package envtest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// stopTimeout is how long a server may take to end before it is killed.
const stopTimeout = 5 * time.Second

// Server is a server that serves until Stop is called or this process ends.
type Server struct {
	ready   ready
	command *exec.Cmd
	stdin   io.Closer
	http    *http.Client
	logs    string
	ended   chan struct{}
	once    sync.Once
}

// ready is the line that the program prints.
type ready struct {
	CA         string `json:"ca"`
	Kubeconfig string `json:"kubeconfig"`
	Token      string `json:"token"`
	URL        string `json:"url"`
}

type settings struct {
	binary    string
	arguments []string
	flags     []string
}

// Option says what to start.
type Option func(*settings)

// WithCRDs begins with the CustomResourceDefinitions in files or in the files of folders. They stay when the server is reset.
func WithCRDs(paths ...string) Option {
	return func(s *settings) {
		for _, path := range paths {
			s.arguments = append(s.arguments, "--crds", path)
		}
	}
}

// WithFlags gives flags of kube-apiserver, such as --feature-gates=….
func WithFlags(flags ...string) Option {
	return func(s *settings) { s.flags = append(s.flags, flags...) }
}

// WithBinary names the program.
func WithBinary(path string) Option {
	return func(s *settings) { s.binary = path }
}

// Bare leaves deleted namespaces, owned objects and service accounts alone, as kube-apiserver without a controller manager does.
func Bare() Option {
	return func(s *settings) { s.arguments = append(s.arguments, "--bare") }
}

// New starts a server that the caller stops: for TestMain, and for programs that are no tests.
func New(options ...Option) (*Server, error) {
	var s settings
	for _, option := range options {
		option(&s)
	}
	binary, err := find(s.binary)
	if err != nil {
		return nil, err
	}
	logs, err := os.MkdirTemp("", "ferrokube-logs-")
	if err != nil {
		return nil, err
	}
	arguments := append([]string{"test-server", "--print-json", "--logs", logs}, s.arguments...)
	if len(s.flags) > 0 {
		arguments = append(append(arguments, "--"), s.flags...)
	}
	server := &Server{command: exec.Command(binary, arguments...), logs: logs, ended: make(chan struct{})}
	if err := server.start(); err != nil {
		server.Stop()
		return nil, fmt.Errorf("%s test-server: %w", binary, err)
	}
	return server, nil
}

func find(binary string) (string, error) {
	if binary == "" {
		binary = os.Getenv("FERROKUBE_BINARY")
	}
	if binary == "" {
		binary = "ferrokube"
	}
	return exec.LookPath(binary)
}

func (s *Server) start() error {
	s.command.Stderr = os.Stderr
	stdin, err := s.command.StdinPipe()
	if err != nil {
		return err
	}
	s.stdin = stdin
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		close(s.ended)
		return err
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	if err != nil {
		return errors.New("it ended before it was ready")
	}
	if err := json.Unmarshal(line, &s.ready); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.ready.CA))
	s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	return nil
}

// Start starts a server and stops it when the test is over. Of a test that fails the logs stay; the test says where.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	server, err := New(options...)
	if err != nil {
		t.Fatalf("the API server does not start: %v", err)
	}
	t.Cleanup(func() {
		server.end()
		server.settleLogs(t)
	})
	return server
}

// idle has the servers of Isolated that no test uses. They end with the process.
var idle struct {
	sync.Mutex
	servers []*Server
}

// Isolated gives the test an empty server that no other test uses meanwhile. Tests that come after each other share servers, which
// are reset in between; tests in parallel have one each.
func Isolated(t testing.TB) *Server {
	t.Helper()
	idle.Lock()
	var server *Server
	if last := len(idle.servers) - 1; last >= 0 {
		server, idle.servers = idle.servers[last], idle.servers[:last]
	}
	idle.Unlock()
	if server == nil {
		started, err := New()
		if err != nil {
			t.Fatalf("the API server does not start: %v", err)
		}
		server = started
	}
	t.Cleanup(func() {
		if t.Failed() {
			// Its logs are this test's, and a later test gets a server that nothing went wrong with.
			server.end()
			server.settleLogs(t)
			return
		}
		server.Reset(t)
		idle.Lock()
		idle.servers = append(idle.servers, server)
		idle.Unlock()
	})
	return server
}

// Config is for clients of the administrator.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:            s.ready.URL,
		BearerToken:     s.ready.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(s.ready.CA)},
		QPS:             -1,
	}
}

// Kubeconfig is the path of a file that speaks for the administrator.
func (s *Server) Kubeconfig() string { return s.ready.Kubeconfig }

// URL is https://127.0.0.1:….
func (s *Server) URL() string { return s.ready.URL }

// Logs is the folder with server.log and audit.log.
func (s *Server) Logs() string { return s.logs }

// Reset removes what was written since the start and brings back what the server had made for itself. Watches see the deletions.
func (s *Server) Reset(t testing.TB) {
	t.Helper()
	if err := s.ResetContext(t.Context(), false); err != nil && t.Context().Err() == nil {
		t.Fatalf("the API server was not reset: %v", err)
	} else if err != nil {
		// In a clean-up the test's context has ended already.
		if err := s.ResetContext(context.Background(), false); err != nil {
			t.Errorf("the API server was not reset: %v", err)
		}
	}
}

// ResetContext does the same, and can leave CustomResourceDefinitions in place.
func (s *Server) ResetContext(ctx context.Context, keepDefinitions bool) error {
	path := "/test-server/reset"
	if keepDefinitions {
		path += "?definitions=keep"
	}
	_, err := s.post(ctx, path)
	return err
}

// User gives a config for a user in groups, who may do what RBAC objects say.
func (s *Server) User(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	query := url.Values{"name": {name}, "group": groups}
	kubeconfig, err := s.post(t.Context(), "/test-server/users?"+query.Encode())
	if err != nil {
		t.Fatalf("there is no user %s: %v", name, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatalf("the kubeconfig of %s: %v", name, err)
	}
	return config
}

func (s *Server) post(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.ready.URL+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.ready.Token)
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, nil
}

// Stop ends the server and removes everything of it, its logs too.
func (s *Server) Stop() {
	s.end()
	_ = os.RemoveAll(s.logs)
}

func (s *Server) end() {
	s.once.Do(func() {
		if s.stdin == nil || s.command.Process == nil {
			return
		}
		_ = s.stdin.Close()
		select {
		case <-s.ended:
		case <-time.After(stopTimeout):
			_ = s.command.Process.Kill()
			<-s.ended
		}
	})
}

func (s *Server) settleLogs(t testing.TB) {
	if !t.Failed() {
		_ = os.RemoveAll(s.logs)
		return
	}
	t.Logf("what the API server did: %s and %s", filepath.Join(s.logs, "server.log"), filepath.Join(s.logs, "audit.log"))
}
