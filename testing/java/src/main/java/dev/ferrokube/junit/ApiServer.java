package dev.ferrokube.junit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives a test class an API server, which is empty for each of its tests. Parameters of type {@link TestServer} are the server, and
 * static String fields with {@link KubeConfig} are set to the administrator's kubeconfig.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(ApiServerExtension.class)
public @interface ApiServer {
    /** Files with CustomResourceDefinitions, and folders of such files. */
    String[] crds() default {};

    /** Flags of kube-apiserver. */
    String[] flags() default {};

    /** Leave deleted namespaces, owned objects and service accounts alone. */
    boolean bare() default false;
}
