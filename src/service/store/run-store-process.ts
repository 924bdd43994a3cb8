import { fork } from 'node:child_process';
import { setMaxListeners } from 'node:events';
import { builtModule } from '../../core/program-files.ts';
import type { CallAnswer } from './answer-call.ts';
import type { StoreLedger } from './store-ledger.ts';
import type { FromStoreProcess, StoreJob, StoreSyncEnd, ToStoreProcess } from './store-messages.ts';

export interface StoreProcessOptions {
  readonly job: StoreJob;
  /** Never rejects. The signal is aborted when the process is gone. */
  readonly answer: (body: string, signal: AbortSignal) => Promise<CallAnswer>;
  readonly onLedger: (ledger: StoreLedger) => void;
  /** Aborted: the process is killed. */
  readonly signal: AbortSignal;
}

/** `died`: it was killed, or broke down; `how` is its signal or exit code. */
export type StoreProcessEnd = StoreSyncEnd | { readonly kind: 'died'; readonly how: string };

/** Far more than a sync takes; one that goes beyond ends instead of the machine's memory. */
const maxHeapMiB = 1_024;

/** Runs one sync of a store in a process of its own. Resolves when that is gone, whatever became of it; never rejects. */
export async function runStoreProcess(options: StoreProcessOptions): Promise<StoreProcessEnd> {
  const { job, answer, onLedger, signal } = options;
  if (signal.aborted) return { kind: 'died', how: 'not begun' };
  const child = fork(builtModule('service/store/store-process'), {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    execArgv: [`--max-old-space-size=${maxHeapMiB}`],
    env: processEnvironment(),
  });
  const gone = new AbortController();
  // Every call that is being answered listens: many of them are no leak.
  setMaxListeners(0, gone.signal);
  let end: StoreSyncEnd | null = null;

  const send = (message: ToStoreProcess): void => {
    // With a callback a channel that has closed is no error: the process is gone then, and that is heard of below.
    if (child.connected) child.send(message, () => undefined);
  };
  const answerCall = async (id: number, body: string): Promise<void> => {
    send({ kind: 'answer', id, ...(await answer(body, gone.signal)) });
  };
  child.on('message', (message: FromStoreProcess) => {
    switch (message.kind) {
      case 'call':
        void answerCall(message.id, message.body);
        break;
      case 'ledger':
        onLedger(message.ledger);
        break;
      case 'ended':
        ({ end } = message);
        // Its last word: it goes when nobody is there any more. Going by itself it might be gone before it was heard.
        child.disconnect();
        break;
    }
  });
  const kill = (): void => void child.kill('SIGKILL');
  signal.addEventListener('abort', kill, { once: true });
  send({ kind: 'begin', job });

  const how = await new Promise<string>((resolve) => {
    child.once('exit', (code, by) => resolve(by ?? `exit code ${code}`));
    // It could not be started at all; where it was, `exit` follows.
    child.on('error', (error) => {
      if (child.pid === undefined) resolve('code' in error ? String(error.code) : error.name);
    });
  });
  signal.removeEventListener('abort', kill);
  gone.abort(new Error('The process that asked is gone.'));
  return end ?? { kind: 'died', how };
}

/** What is not said here a sync has no use for: no secret of the service reaches the process that reads the third party's records. */
function processEnvironment(): NodeJS.ProcessEnv {
  const names = ['TMPDIR', 'SQLITE_TMPDIR', 'TZ', 'SystemRoot'];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}
