import { once } from 'node:events';
import { Readable, type Writable } from 'node:stream';
import type { McpServer } from '@modelcontextprotocol/server';
import type { JobLog } from '../jobs/worker-context.ts';
import type { loadPackage } from './load-package.ts';

/** Of one message. A longer one ends the connection. */
const mostMessageBytes = 1024 * 1024;

interface StdioOptions {
  readonly input: AsyncIterable<string | Uint8Array>;
  /** Protocol, and nothing else. */
  readonly output: Writable;
  readonly open: () => McpServer;
  readonly log: JobLog;
  readonly signal: AbortSignal;
}

/**
 * Serves the client at the other end of input and output until it closes one of them, or until the signal is aborted.
 * While the client does not read its answers, its requests are not read either, so that memory stays bounded.
 */
export async function serveStdio(
  { serveStdio: serve, StdioServerTransport }: Awaited<ReturnType<typeof loadPackage>>,
  { input, output, open, log, signal }: StdioOptions,
): Promise<void> {
  const gated = Readable.from(asLongAsRead(input, output), { objectMode: false });
  const onAbort = (): void => void gated.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
  output.once('error', onAbort);
  const ended = new Promise((resolve) => gated.once('close', resolve));
  const served = serve(open, {
    transport: new StdioServerTransport(gated, output, { maxBufferSize: mostMessageBytes }),
    onerror: (error) => log.warn({ err: error }, 'a message could not be served'),
  });
  await ended;
  signal.removeEventListener('abort', onAbort);
  await served.close();
}

/** Resolves when the reader of an output takes more. */
export async function taken(output: Writable): Promise<void> {
  if (output.writableNeedDrain) await once(output, 'drain');
}

async function* asLongAsRead(
  input: AsyncIterable<string | Uint8Array>,
  output: Writable,
): AsyncGenerator<string | Uint8Array> {
  for await (const chunk of input) {
    yield chunk;
    await taken(output);
  }
}
