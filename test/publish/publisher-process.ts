import { systemClock } from '../../src/core/clock.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import type { OpenPublication, Target } from '../../src/publish/target.ts';
import type { PublishPlace, PublishSettings } from '../../src/settings/settings.ts';
import { fakePlace } from '../support/publish/fake-s3.ts';
import { publishNow, connectorOf } from '../support/publish/publish-now.ts';

/** What a publisher is asked for. `stopAt`: the step at which it kills itself; absent: it goes to the end. */
export interface Publishing {
  readonly stopAt?: number;
  readonly isNewGenerationAsked?: boolean;
  readonly isSnapshotAsked?: boolean;
}

/**
 * Publishes the SQLite sink of the first argument into the folder, the fake of S3 (http://...) or the place in JSON of
 * the second one, once for each message, and answers how it ended.
 */
const [, , path = '', given = ''] = process.argv;
const files = { format: 'jsonl' } as const;

function placeOf(): PublishPlace {
  // `as`: what the test has written.
  if (given.startsWith('{')) return JSON.parse(given) as PublishPlace;
  return given.startsWith('http:')
    ? { type: 's3', ...files, ...fakePlace(given) }
    : { type: 'files', ...files, directory: given };
}

const connectors = [connectorOf({ type: 'sqlite', name: 'main', path, durability: 'normal' })];
const signal = new AbortController().signal;
const settings: PublishSettings = {
  ...placeOf(),
  name: 'desk',
  connectors,
  when: { kind: 'by-hand' },
  times: 'text',
  snapshotEveryMs: null,
  keepMs: null,
};

async function publish({ stopAt, ...asked }: Publishing): Promise<string> {
  await using target = stoppedAt(await openTarget(settings, { clock: systemClock, signal }), stopAt);
  const end = await publishNow(target, settings, asked);
  return end.kind;
}

function stoppedAt(target: Target, stopAt?: number): Target {
  let steps = 0;
  const around = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    step();
    const result = await work();
    step();
    return result;
  };
  const step = (): void => {
    steps += 1;
    if (steps === stopAt) process.kill(process.pid, 'SIGKILL');
  };
  const wrap = (publication: OpenPublication): OpenPublication => ({
    write: async (entity, rows) => await around(async () => await publication.write(entity, rows)),
    commit: async (manifest) => await around(async () => await publication.commit(manifest)),
    [Symbol.asyncDispose]: async () => await publication[Symbol.asyncDispose](),
  });
  return { ...target, begin: async (number) => wrap(await around(async () => await target.begin(number))) };
}

process.on('message', (message: Publishing) => {
  publish(message)
    .catch(String)
    .then((end) => process.send?.(end))
    .catch(() => process.exit(1));
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
