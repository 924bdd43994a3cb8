import { SyncError } from '../../core/errors.ts';
import type { SentError } from '../../search/process/fork-module.ts';
import { receivedRecord, type Answer, type Request } from './messages.ts';
import { createParquetFile, type ParquetFile } from './parquet-file.ts';

/**
 * The entry point of a process that writes Parquet: answers each request in its order, until its parent disconnects. It
 * writes and compresses without a pause for anything else, which is why it is a process.
 */
const files = new Map<number, ParquetFile>();

process.on('disconnect', () => process.exit());
// Ctrl-C reaches every process of a terminal; it is the parent that ends this one.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('message', (request: Request) => {
  const answer = answerTo(request);
  // Without a channel there is no reader of the answer.
  if (process.connected) process.send?.(answer);
});

function answerTo(request: Request): Answer {
  try {
    return { kind: 'done', ...done(request) };
  } catch (error) {
    files.get(request.file)?.[Symbol.dispose]();
    files.delete(request.file);
    return { kind: 'failed', error: sentError(error) };
  }
}

function done(request: Request): { readonly bytes: number; readonly sha256: string } {
  switch (request.kind) {
    case 'create':
      files.set(request.file, createParquetFile(request.path, request.columns));
      return { bytes: 0, sha256: '' };
    case 'write':
      return { bytes: fileOf(request).write(request.rows.map(receivedRecord)), sha256: '' };
    case 'close': {
      const closed = fileOf(request).close(request.expected);
      files.delete(request.file);
      return closed;
    }
    case 'leave':
      files.get(request.file)?.[Symbol.dispose]();
      files.delete(request.file);
      return { bytes: 0, sha256: '' };
  }
}

function fileOf({ file }: Request): ParquetFile {
  const found = files.get(file);
  if (found === undefined) throw new Error('a file was written to that is not open');
  return found;
}

function sentError(error: unknown): SentError {
  if (error instanceof SyncError) {
    const { message, code, recovery, context } = error;
    return { message, code, recovery, context };
  }
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return {
    message: `A Parquet file could not be written (${name}: ${message.slice(0, 200)}). This is a bug: report it.`,
    code: 'TARGET_FAILED',
    recovery: 'stop',
    context: {},
  };
}
