package neardup;

import java.io.IOException;
import java.time.Duration;
import java.util.Optional;

/** The service has refused a request, or failed. */
public final class ServiceException extends IOException {
    private static final long serialVersionUID = 1;

    private final int status;
    private final String error;
    private final String requestId;
    private final Duration retryAfter;

    ServiceException(int status, String error, String message, String requestId,
            Duration retryAfter) {
        super(message);
        this.status = status;
        this.error = error;
        this.requestId = requestId;
        this.retryAfter = retryAfter;
    }

    /** Returns the status of the answer, such as 429. */
    public int status() {
        return status;
    }

    /** Returns the stable name of the error, such as {@code too_many_requests}. */
    public String error() {
        return error;
    }

    /** Returns the id that the log of the service has for the request; empty without one. */
    public String requestId() {
        return requestId;
    }

    /** Returns when to send the request again, if the service said so. */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }
}
