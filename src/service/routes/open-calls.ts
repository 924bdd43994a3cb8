import type { FastifyReply } from 'fastify';
import { ApiError } from '../api-error.ts';

/** The calls that are being answered, each with its own signal. */
export interface OpenCalls {
  /** The signal is aborted when the client goes away before it has the whole answer, or by `abortAll`: no failure of the service. */
  open(reply: FastifyReply): AbortSignal;
  /** Ends every call that is open, and every later one at once: the service is closing. */
  abortAll(): void;
}

export function trackCalls(): OpenCalls {
  const controllers = new Set<AbortController>();
  let closed: ApiError | null = null;
  return {
    open(reply) {
      const controller = new AbortController();
      if (closed !== null) controller.abort(closed);
      controllers.add(controller);
      // 'close' comes after every answer, sent or cut off; only the second is worth a signal.
      reply.raw.once('close', () => {
        controllers.delete(controller);
        if (!reply.raw.writableFinished) controller.abort(new ApiError(499, 'The client has gone away.'));
      });
      return controller.signal;
    },
    abortAll() {
      closed = new ApiError(503, 'The local service is closing.');
      for (const controller of controllers) controller.abort(closed);
    },
  };
}
