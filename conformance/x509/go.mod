// Facts about PEM blocks, certificates and chains: what Go's standard library answers.
module ferrokube.dev/conformance/x509

go 1.26.0
