package dev.ferrokube.junit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** On a static String field of a class with {@link ApiServer}: the text of the administrator's kubeconfig. */
@Target(ElementType.FIELD)
@Retention(RetentionPolicy.RUNTIME)
public @interface KubeConfig {}
