package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// fakeAuthorizer decides by verb; its reason lists what it was asked.
type fakeAuthorizer struct {
	User     string    `json:"user"`
	Allow    []string  `json:"allow,omitempty"`
	Deny     []string  `json:"deny,omitempty"`
	Error    []string  `json:"error,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

func (f *fakeAuthorizer) user() user.Info { return &user.DefaultInfo{Name: f.User} }

func (f *fakeAuthorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	reason := fmt.Sprintf("user=%s verb=%s path=%s", a.GetUser().GetName(), a.GetVerb(), a.GetPath())
	if a.IsResourceRequest() {
		fields, fieldErr := a.GetFieldSelector()
		labels, labelErr := a.GetLabelSelector()
		reason = fmt.Sprintf("user=%s verb=%s group=%s version=%s resource=%s subresource=%s namespace=%s name=%s fields=%v labels=%v fieldError=%v labelError=%v",
			a.GetUser().GetName(), a.GetVerb(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName(),
			shown(fields, fieldText), shown(labels, labelText), fieldErr != nil, labelErr != nil)
	}
	switch {
	case slices.Contains(f.Error, a.GetVerb()):
		return authorizer.DecisionNoOpinion, reason, errors.New("fake authorizer error")
	case slices.Contains(f.Allow, a.GetVerb()):
		return authorizer.DecisionAllow, reason, nil
	case slices.Contains(f.Deny, a.GetVerb()):
		return authorizer.DecisionDeny, reason, nil
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

func shown[T any](requirements []T, text func(T) string) string {
	texts := []string{}
	for _, requirement := range requirements {
		texts = append(texts, text(requirement))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

func fieldText(requirement fields.Requirement) string {
	return requirement.Field + string(requirement.Operator) + requirement.Value
}

func labelText(requirement labels.Requirement) string { return requirement.String() }
