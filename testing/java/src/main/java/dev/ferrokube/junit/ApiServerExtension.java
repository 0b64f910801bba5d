package dev.ferrokube.junit;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.List;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestWatcher;

/** What {@link ApiServer} does. */
public final class ApiServerExtension
        implements BeforeAllCallback, AfterEachCallback, AfterAllCallback, ParameterResolver, TestWatcher {
    private static final Namespace NAMESPACE = Namespace.create(ApiServerExtension.class);

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        Class<?> test = context.getRequiredTestClass();
        ApiServer wanted = test.getAnnotation(ApiServer.class);
        if (wanted == null || serverOf(context) != null) {
            return;
        }
        TestServer server = TestServer.builder()
                .crds(List.of(wanted.crds()))
                .flags(List.of(wanted.flags()))
                .bare(wanted.bare())
                .start();
        context.getStore(NAMESPACE).put(TestServer.class, server);
        context.getStore(NAMESPACE).put(Class.class, test);
        for (Class<?> type = test; type != null; type = type.getSuperclass()) {
            setFields(type, server);
        }
    }

    private static void setFields(Class<?> type, TestServer server) throws IOException, IllegalAccessException {
        for (Field field : type.getDeclaredFields()) {
            if (!field.isAnnotationPresent(KubeConfig.class)) {
                continue;
            }
            if (!Modifier.isStatic(field.getModifiers()) || field.getType() != String.class) {
                throw new IllegalStateException("@KubeConfig is for static String fields, not for " + field);
            }
            field.setAccessible(true);
            field.set(null, server.kubeconfigText());
        }
    }

    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        serverOf(context).reset();
    }

    @Override
    public void testFailed(ExtensionContext context, Throwable cause) {
        TestServer server = serverOf(context);
        if (server != null) {
            server.keepLogs();
            context.publishReportEntry("ferrokube", server.logs() + "/server.log and audit.log say what the API server did");
        }
    }

    @Override
    public void afterAll(ExtensionContext context) {
        // Nested classes use the server of the class around them.
        if (context.getStore(NAMESPACE).get(Class.class) == context.getRequiredTestClass()) {
            serverOf(context).close();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == TestServer.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return serverOf(context);
    }

    private static TestServer serverOf(ExtensionContext context) {
        return context.getStore(NAMESPACE).get(TestServer.class, TestServer.class);
    }
}
