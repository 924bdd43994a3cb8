import { Worker } from 'node:worker_threads';
import { systemClock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { builtModule } from '../../core/program-files.ts';
import type { SearchAnswer } from '../search-answer.ts';
import { openFiles } from './open-files.ts';
import type {
  FromSearchProcess,
  ProcessSettings,
  SearchCall,
  SentError,
  ToSearchProcess,
} from './search-message.ts';

/**
 * The entry of a search process: answers one call after the other until whoever started it lets it go. Its argument is the
 * process number of that one.
 */
const files = openFiles();
let settings: ProcessSettings | null = null;

process.on('disconnect', () => process.exit());
// Ctrl-C reaches every process of a terminal, and it is for the one that started this one to end it, in its time.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.on('message', (message: ToSearchProcess) => {
  if (message.kind === 'settings') settings = message.settings;
  else answer(message.call);
});
new Worker(builtModule('search/process/watch-parent'), {
  workerData: Number(process.argv[2]),
}).unref();
send({ kind: 'ready' });

function answer(call: SearchCall): void {
  try {
    send({ kind: 'answer', answer: searchOnce(call) });
  } catch (error) {
    send({ kind: 'failed', error: sentError(error, call) });
  }
}

function searchOnce({ file, connector, entity, params, scope }: SearchCall): SearchAnswer {
  if (settings === null) throw new Error('a call came before the settings');
  return files.of(file).search({ connector, entity }, params, { ...settings, scope, clock: systemClock });
}

function sentError(error: unknown, { file, entity }: SearchCall): SentError {
  if (error instanceof SyncError) {
    const { message, code, recovery, context } = error;
    return { message, code, recovery, context };
  }
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return {
    message: `The search of "${entity.name}" failed unexpectedly (${name}: ${message.slice(0, 200)}). This is a defect: report it with the query.`,
    code: 'INTERNAL',
    recovery: 'stop',
    context: { file, entity: entity.name },
  };
}

/** Without a channel nobody waits for an answer any more. */
function send(message: FromSearchProcess): void {
  if (process.connected) process.send?.(message);
}
