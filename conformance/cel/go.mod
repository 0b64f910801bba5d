module ferrokube.dev/conformance/cel

go 1.26

require (
	cel.dev/expr v0.25.3
	google.golang.org/protobuf v1.36.11
)
