package main

import (
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// informer is what all three families of informers have in common.
type informer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	SetWatchErrorHandler(cache.WatchErrorHandler) error
	GetStore() cache.Store
}

// eventLog checks each event against what it was told before, and remembers the first lie.
type eventLog struct {
	name, kind   string
	store        cache.Store
	registration cache.ResourceEventHandlerRegistration

	mu     sync.Mutex
	known  map[string]uint64 // key → resource version of the object as last told
	gone   map[string]bool
	events int
	lie    error
}

func newEventLog(name, kind string, informer informer) (*eventLog, error) {
	log := &eventLog{name: name, kind: kind, store: informer.GetStore(), known: map[string]uint64{}, gone: map[string]bool{}}
	// Cut connections are what this test does; client-go's default handler would fill the output with them.
	if err := informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		return nil, err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { log.tell("added", nil, object) },
		UpdateFunc: func(old, object any) { log.tell("updated", old, object) },
		DeleteFunc: func(object any) { log.tell("deleted", object, nil) },
	})
	log.registration = registration
	return log, err
}

func (l *eventLog) synced() bool { return l.registration.HasSynced() }

func (l *eventLog) tell(what string, old, object any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	if err := l.judge(what, old, object); err != nil && l.lie == nil {
		l.lie = fmt.Errorf("%s: %s: %w", l.name, what, err)
	}
}

func (l *eventLog) judge(what string, old, object any) error {
	if tombstone, ok := old.(cache.DeletedFinalStateUnknown); ok {
		return fmt.Errorf("%s was deleted unseen: the watch had a gap", tombstone.Key)
	}
	subject := object
	if what == "deleted" {
		subject = old
	}
	key, version, err := identify(subject)
	if err != nil {
		return err
	}
	last, known := l.known[key]
	switch {
	case what == "added" && (known || l.gone[key]):
		return fmt.Errorf("%s was there before", key)
	case what != "added" && !known:
		return fmt.Errorf("%s was not there before", key)
	case known && version <= last:
		return fmt.Errorf("%s went from resource version %d to %d", key, last, version)
	}
	if what == "deleted" {
		delete(l.known, key)
		l.gone[key] = true
	} else {
		l.known[key] = version
	}
	return nil
}

func (l *eventLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// storeEquals compares the informer's store with key → resource version from a list.
func (l *eventLog) storeEquals(want map[string]uint64) error {
	items := l.store.List()
	have := make(map[string]uint64, len(items))
	for _, item := range items {
		key, version, err := identify(item)
		if err != nil {
			return err
		}
		have[key] = version
	}
	return difference(l.name+": store", have, want)
}

// verdict is the first lie told, or how what was told differs from a list.
func (l *eventLog) verdict(want map[string]uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lie != nil {
		return l.lie
	}
	return difference(l.name+": events", l.known, want)
}

func difference(name string, have, want map[string]uint64) error {
	for key, version := range want {
		if have[key] != version {
			return fmt.Errorf("%s: %s is at resource version %d, listed at %d", name, key, have[key], version)
		}
	}
	if len(have) != len(want) {
		return fmt.Errorf("%s: %d objects, %d listed", name, len(have), len(want))
	}
	return nil
}

func identify(object any) (string, uint64, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", 0, err
	}
	version, err := strconv.ParseUint(accessor.GetResourceVersion(), 10, 64)
	return accessor.GetNamespace() + "/" + accessor.GetName(), version, err
}
