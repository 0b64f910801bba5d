package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func at(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", ResourceVersion: version}}
}

// A log of events that tells a lie must say so, or the whole test proves nothing.
func TestEventLog(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(*eventLog)
		want map[string]uint64
		lie  string // part of the verdict; empty for the truth
	}{
		"the truth":      {func(l *eventLog) { l.tell("added", nil, at("1")); l.tell("updated", at("1"), at("2")) }, map[string]uint64{"n/a": 2}, ""},
		"added, deleted": {func(l *eventLog) { l.tell("added", nil, at("1")); l.tell("deleted", at("2"), nil) }, nil, ""},
		"added twice":    {func(l *eventLog) { l.tell("added", nil, at("1")); l.tell("added", nil, at("2")) }, map[string]uint64{"n/a": 2}, "was there before"},
		"back from the dead": {func(l *eventLog) {
			l.tell("added", nil, at("1"))
			l.tell("deleted", at("2"), nil)
			l.tell("added", nil, at("3"))
		}, map[string]uint64{"n/a": 3}, "was there before"},
		"updated unseen": {func(l *eventLog) { l.tell("updated", at("1"), at("2")) }, map[string]uint64{"n/a": 2}, "was not there before"},
		"told twice":     {func(l *eventLog) { l.tell("added", nil, at("2")); l.tell("updated", at("2"), at("2")) }, map[string]uint64{"n/a": 2}, "from resource version 2 to 2"},
		"back in time":   {func(l *eventLog) { l.tell("added", nil, at("2")); l.tell("updated", at("2"), at("1")) }, map[string]uint64{"n/a": 1}, "from resource version 2 to 1"},
		"deleted in a gap": {func(l *eventLog) {
			l.tell("added", nil, at("1"))
			l.tell("deleted", cache.DeletedFinalStateUnknown{Key: "n/a", Obj: at("1")}, nil)
		}, nil, "the watch had a gap"},
		"missed update": {func(l *eventLog) { l.tell("added", nil, at("1")) }, map[string]uint64{"n/a": 2}, "at resource version 1, listed at 2"},
		"missed delete": {func(l *eventLog) { l.tell("added", nil, at("1")) }, nil, "1 objects, 0 listed"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &eventLog{name: "log", known: map[string]uint64{}, gone: map[string]bool{}}
			c.tell(log)
			err := log.verdict(c.want)
			if (err == nil) != (c.lie == "") || err != nil && !strings.Contains(err.Error(), c.lie) {
				t.Errorf("verdict %v, want %q", err, c.lie)
			}
		})
	}
}
