import { readFileSync } from 'node:fs';
import { findDefinitions } from '../../src/definitions/load-definitions.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { SinkPlace } from '../../src/sinks/sink-access.ts';
import { openSignIn, type SignIn } from '../../src/sign-ins/sign-in-store.ts';
import { openCallGate } from '../../src/upstream/call-gate.ts';
import { openUpstream } from '../../src/upstream/open-upstream.ts';
import { UpstreamFailure } from '../../src/upstream/upstream-failure.ts';
import { openUpstreamTransport } from '../../src/upstream/upstream-transport.ts';

/** What a process of these tests does; written as JSON into the file that its argument names. */
export interface RenewingTask {
  readonly definitions: string;
  readonly allowHosts: readonly string[];
  readonly credentials: Readonly<Record<string, string>>;
  readonly sink: SinkPlace;
  /** In hex; empty: none. */
  readonly key: string;
  readonly claimMs: number;
  /** Where it kills itself; `none`: nowhere. */
  readonly killAt: KillStep;
  /** Answers once the service has renewed the tokens, while it may still hold the answer back. */
  readonly renewed: string;
}

export type KillStep = 'none' | 'before' | 'claimed' | 'renewed' | 'answered' | 'stored';

const [, , file = ''] = process.argv;
// `as`: the test wrote it.
const task = JSON.parse(readFileSync(file, 'utf8')) as RenewingTask;

function at(step: KillStep): void {
  if (step === task.killAt) process.kill(process.pid, 'SIGKILL');
}

/** The sign-in, with the steps of a renewal at which this process may end. */
function withSteps(signIn: SignIn): SignIn {
  return {
    ...signIn,
    renew: async (revision, ask, signal) => {
      at('before');
      const renewed = await signIn.renew(
        revision,
        async (found) => {
          at('claimed');
          const answer = ask(found);
          if (task.killAt === 'renewed') {
            await fetch(task.renewed);
            at('renewed');
          }
          const renewal = await answer;
          at('answered');
          return renewal;
        },
        signal,
      );
      at('stored');
      return renewed;
    },
  };
}

const definition = [...findDefinitions([task.definitions]).definitions.values()][0];
if (definition === undefined) throw new Error('no definition was read');
const transport = openUpstreamTransport({ allowHosts: task.allowHosts });
const gate = openCallGate();
const key = task.key === '' ? null : Buffer.from(task.key, 'hex');
const { sink, claimMs } = task;
const signIn = openSignIn({ connector: 'crm', sink, key, clock: systemClock, claimMs });
const account = openUpstream({
  definition,
  connector: 'crm',
  gate,
  transport,
  signIn: withSteps(signIn),
  credentials: () => Promise.resolve(task.credentials),
});
try {
  const { identity } = await account.check(AbortSignal.timeout(60_000));
  console.log(JSON.stringify({ identity }));
} catch (error) {
  if (!(error instanceof UpstreamFailure)) throw error;
  console.log(JSON.stringify({ refused: error.text }));
} finally {
  await account.close();
  await transport[Symbol.asyncDispose]();
}
