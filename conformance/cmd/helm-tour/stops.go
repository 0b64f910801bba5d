package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type stop struct {
	name  string
	visit func() error
}

func (t *tour) stops() []stop {
	return []stop{
		{"install", t.install},
		{"upgrade", t.upgrade},
		{"ask", t.ask},
		{"conflict with another's change", t.conflict},
		{"rollback", t.rollback},
		{"upgrade with patches made by the client", t.upgradeClientSide},
		{"refused chart leaves a failed release", t.refused},
		{"uninstall", t.uninstall},
	}
}

// state is what the chart's values decide.
type state struct {
	replicas int32
	message  string
	extra    bool
	hook     string // the revision that last ran the hook
}

func (t *tour) expect(want state) error {
	core := t.client.CoreV1()
	config, err := core.ConfigMaps(t.namespace).Get(t.ctx, release, metav1.GetOptions{})
	if err != nil {
		return err
	}
	secret, err := core.Secrets(t.namespace).Get(t.ctx, release, metav1.GetOptions{})
	if err != nil {
		return err
	}
	hook, err := core.ConfigMaps(t.namespace).Get(t.ctx, release+"-hook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	workload, err := t.client.AppsV1().Deployments(t.namespace).Get(t.ctx, release, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = core.ConfigMaps(t.namespace).Get(t.ctx, release+"-extra", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	have := state{*workload.Spec.Replicas, config.Data["message"], err == nil, hook.Data["revision"]}
	if have != want {
		return fmt.Errorf("the server has %+v, want %+v", have, want)
	}
	if message := string(secret.Data["message"]); message != want.message {
		return fmt.Errorf("the secret says %q, want %q", message, want.message)
	}
	if message := workload.Spec.Template.Spec.Containers[0].Env[0].Value; message != want.message {
		return fmt.Errorf("the workload says %q, want %q", message, want.message)
	}
	return nil
}

// releases are the statuses of the release's revisions, oldest first.
func (t *tour) releases() (string, error) {
	secrets, err := t.client.CoreV1().Secrets(t.namespace).List(t.ctx,
		metav1.ListOptions{LabelSelector: "owner=helm,name=" + release, FieldSelector: "type=helm.sh/release.v1"})
	if err != nil {
		return "", err
	}
	var statuses []string
	for _, secret := range secrets.Items { // listed by name, and so by revision while there are fewer than ten
		statuses = append(statuses, secret.Labels["status"])
	}
	return strings.Join(statuses, " "), nil
}

func (t *tour) expectReleases(want string) error {
	have, err := t.releases()
	if err == nil && have != want {
		err = fmt.Errorf("the release's revisions are %q, want %q", have, want)
	}
	return err
}

func (t *tour) install() error {
	if err := t.change("install"); err != nil {
		return err
	}
	return errors.Join(t.expect(state{1, "first", false, "1"}), t.expectReleases("deployed"), t.ownedByHelm())
}

// ownedByHelm makes sure that helm applied the workload on the server's side.
func (t *tour) ownedByHelm() error {
	workload, err := t.client.AppsV1().Deployments(t.namespace).Get(t.ctx, release, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, entry := range workload.ManagedFields {
		if entry.Manager == "helm" && entry.Operation == metav1.ManagedFieldsOperationApply {
			return nil
		}
	}
	return fmt.Errorf("helm is no applier among the managers %v", workload.ManagedFields)
}

func (t *tour) upgrade() error {
	if err := t.change("upgrade", "--set", "replicas=2,message=second,extra=true,labels.tier=gold"); err != nil {
		return err
	}
	return errors.Join(t.expect(state{2, "second", true, "2"}), t.expectReleases("superseded deployed"))
}

// ask reads the release in each way helm offers.
func (t *tour) ask() error {
	listed, err := t.run("list", "--output", "json")
	if err != nil {
		return err
	}
	var rows []struct{ Name, Status, Revision string }
	if err := json.Unmarshal([]byte(listed), &rows); err != nil {
		return fmt.Errorf("reading helm list: %w", err)
	}
	if len(rows) != 1 || rows[0].Name != release || rows[0].Status != "deployed" || rows[0].Revision != "2" {
		return fmt.Errorf("helm list says %+v", rows)
	}
	for _, question := range []struct{ command, answer string }{
		{"status", "STATUS: deployed"},
		{"history", "superseded"},
		{"get values", "message: second"},
		{"get manifest", "kind: PodDisruptionBudget"},
		{"get hooks", "helm.sh/hook: pre-install,pre-upgrade"},
	} {
		answer, err := t.run(append(strings.Fields(question.command), release)...)
		if err != nil {
			return err
		}
		if !strings.Contains(answer, question.answer) {
			return fmt.Errorf("helm %s does not say %q but %s", question.command, question.answer, answer)
		}
	}
	return nil
}

// conflict scales the workload behind helm's back: helm must be told, and win when it insists.
func (t *tour) conflict() error {
	_, err := t.client.AppsV1().Deployments(t.namespace).UpdateScale(t.ctx, release, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: release, Namespace: t.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 4},
	}, metav1.UpdateOptions{FieldManager: "somebody"})
	if err != nil {
		return err
	}
	values := []string{"--set", "replicas=3,message=third"}
	err = t.change("upgrade", values...)
	if err == nil || !strings.Contains(err.Error(), `conflict with "somebody"`) || !strings.Contains(err.Error(), ".spec.replicas") {
		return fmt.Errorf("helm was not told of the conflict: %v", err)
	}
	if err := t.change("upgrade", append(values, "--force-conflicts")...); err != nil {
		return err
	}
	return errors.Join(t.expect(state{3, "third", false, "4"}), t.expectReleases("superseded superseded failed deployed"))
}

func (t *tour) rollback() error {
	if _, err := t.run("rollback", release, "2"); err != nil {
		return err
	}
	// A rollback runs no upgrade hooks, so the hook's object is still the upgrade's.
	return errors.Join(t.expect(state{2, "second", true, "4"}), t.expectReleases("superseded superseded failed superseded deployed"))
}

func (t *tour) upgradeClientSide() error {
	if err := t.change("upgrade", "--server-side=false", "--set", "replicas=1,message=sixth"); err != nil {
		return err
	}
	return t.expect(state{1, "sixth", false, "6"})
}

// refused upgrades to what the server must not accept; the message is the server's.
func (t *tour) refused() error {
	err := t.change("upgrade", "--server-side=true", "--set", "replicas=-1")
	if err == nil || !strings.Contains(err.Error(), "spec.replicas: Invalid value: -1: must be greater than or equal to 0") {
		return fmt.Errorf("an invalid workload was not refused as it should be: %v", err)
	}
	releases, err := t.releases()
	if err == nil && !strings.HasSuffix(releases, "deployed failed") {
		err = fmt.Errorf("the release's revisions are %q, want the last one failed", releases)
	}
	return err
}

func (t *tour) uninstall() error {
	if _, err := t.run("uninstall", release); err != nil {
		return err
	}
	if err := t.expectReleases(""); err != nil {
		return err
	}
	// Without a garbage collector a deletion in the background is done at once, with one it soon is; either way the
	// objects of the chart itself are gone when helm returns.
	_, err := t.client.AppsV1().Deployments(t.namespace).Get(t.ctx, release, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the workload is still there (%v)", err)
	}
	services, err := t.client.CoreV1().Services(t.namespace).List(t.ctx, metav1.ListOptions{})
	if err == nil && len(services.Items) > 0 {
		err = fmt.Errorf("%d services are still there", len(services.Items))
	}
	return err
}
