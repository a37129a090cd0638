// h2spec, with which the tests of HTTP/2 break the protocol; see cargo xtask readers.
module baton.invalid/h2spec

go 1.19

require (
	github.com/fatih/color v1.13.0
	github.com/inconshreveable/mousetrap v1.0.0
	github.com/mattn/go-colorable v0.1.12
	github.com/mattn/go-isatty v0.0.14
	github.com/spf13/cobra v1.5.0
	github.com/spf13/pflag v1.0.5
	github.com/summerwind/h2spec v2.2.1+incompatible
	golang.org/x/net v0.17.0
	golang.org/x/sys v0.13.0
	golang.org/x/text v0.13.0
)
