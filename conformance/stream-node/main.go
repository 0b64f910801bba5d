// Command stream-node is a node that really runs its pods' commands, as processes of this machine, and serves exec, attach,
// port-forward and logs with k8s.io/cri-streaming, the code behind every kubelet.
//
//	KUBECONFIG=... stream-node [-name streams] [-address 127.0.0.1] [-pod-ip 10.0.0.1] [-websockets]
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	name := flag.String("name", "streams", "the node's name")
	address := flag.String("address", "127.0.0.1", "the address that the kubelet listens on and publishes")
	podIP := flag.String("pod-ip", "", "the address of every pod")
	websockets := flag.Bool("websockets", false, "declare that this kubelet speaks WebSocket")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *name, *address, *podIP, *websockets); err != nil {
		fmt.Fprintln(os.Stderr, "stream-node:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, address, podIP string, websockets bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return err
	}
	certificate, err := selfSigned(address)
	if err != nil {
		return err
	}
	node := &node{client: client, name: name, podIP: podIP, started: time.Now(), containers: map[string]*container{}}
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	if err := node.register(ctx, address, port, websockets); err != nil {
		return err
	}
	runtime, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	handler := node.streams()
	if websockets {
		handler = node.kubelet(runtime.Addr().String())
	}
	// Upgrades need HTTP/1.1.
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"http/1.1"},
	}}
	failed := make(chan error, 3)
	go func() { failed <- http.Serve(runtime, node.streams()) }()
	go func() { failed <- server.ServeTLS(listener, "", "") }()
	go func() { failed <- node.follow(ctx) }()
	fmt.Println("ready")
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func selfSigned(address string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "stream-node"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.ParseIP(address)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
