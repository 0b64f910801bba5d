// Checks a history of operations with porcupine, a published linearizability checker.
module ferrokube.dev/conformance/porcupine

go 1.26.0

require github.com/anishathalye/porcupine v1.3.1
