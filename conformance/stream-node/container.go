package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// container is a process with a log, to which clients can attach.
type container struct {
	stdin io.WriteCloser

	lock    sync.Mutex
	changed *sync.Cond
	lines   []line
	ended   bool
	// Those who are attached get output as it comes.
	attached map[int]io.Writer
	next     int
}

type line struct {
	at   time.Time
	text string
}

func startContainer(command []string, tty bool) *container {
	c := &container{attached: map[int]io.Writer{}}
	c.changed = sync.NewCond(&c.lock)
	if len(command) == 0 {
		command = []string{"sleep", "infinity"}
	}
	process := exec.Command(command[0], command[1:]...)
	if tty {
		terminal, err := pty.Start(process)
		if err != nil {
			return c
		}
		c.stdin = terminal
		go func() {
			_, _ = io.Copy(c, terminal)
			c.end()
		}()
		return c
	}
	c.stdin, _ = process.StdinPipe()
	process.Stdout, process.Stderr = c, c
	if process.Start() == nil {
		go func() {
			_ = process.Wait()
			c.end()
		}()
	}
	return c
}

// Write takes the process's output: what was not a whole line yet is continued.
func (c *container) Write(bytes []byte) (int, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, attached := range c.attached {
		_, _ = attached.Write(bytes)
	}
	text := string(bytes)
	for text != "" {
		last := len(c.lines) - 1
		if last < 0 || c.lines[last].text[len(c.lines[last].text)-1] == '\n' {
			c.lines = append(c.lines, line{at: time.Now()})
			last++
		}
		end := len(text)
		for i := range text {
			if text[i] == '\n' {
				end = i + 1
				break
			}
		}
		c.lines[last].text += text[:end]
		text = text[end:]
	}
	c.changed.Broadcast()
	return len(bytes), nil
}

func (c *container) end() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.ended = true
	c.changed.Broadcast()
}

func (c *container) attach(ctx context.Context, in io.Reader, out io.Writer) {
	c.lock.Lock()
	number := c.next
	c.next++
	if out != nil {
		c.attached[number] = out
	}
	c.lock.Unlock()
	gone := make(chan struct{})
	if in != nil {
		go func() {
			_, _ = io.Copy(c.stdin, in)
			close(gone)
		}()
	}
	ended := make(chan struct{})
	go func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		for !c.ended {
			c.changed.Wait()
		}
		close(ended)
	}()
	select {
	case <-ended:
	case <-gone:
		// What the process says to its last input is still on its way.
		time.Sleep(200 * time.Millisecond)
	case <-ctx.Done():
	}
	c.lock.Lock()
	delete(c.attached, number)
	c.lock.Unlock()
}

// execute runs a command for a client.
func execute(ctx context.Context, command []string, in io.Reader, out, err io.Writer, tty bool, resize <-chan remotecommand.TerminalSize) error {
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	if tty {
		return inTerminal(process, in, out, resize)
	}
	process.Stdout, process.Stderr = out, err
	var stdin io.WriteCloser
	if in != nil {
		stdin, _ = process.StdinPipe()
	}
	if err := process.Start(); err != nil {
		return err
	}
	if stdin != nil {
		go func() {
			_, _ = io.Copy(stdin, in)
			stdin.Close()
		}()
	}
	return exitCode(process.Wait())
}

func inTerminal(process *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(process)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	_, _ = io.Copy(out, terminal)
	return exitCode(process.Wait())
}

func exitCode(err error) error {
	if exit, ok := err.(*exec.ExitError); ok {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	if err == os.ErrProcessDone {
		return nil
	}
	return err
}
