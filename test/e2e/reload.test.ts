import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { startReceiver } from '../support/notify/receiver.ts';
import { callCli } from '../support/run-cli.ts';
import { noDifferences } from '../support/sample-sinks.ts';
import { useWorkers, type Workers } from '../support/use-workers.ts';
import { isRunFinished, isRunStarted, type LogLine, type WorkerProcess } from '../support/worker-process.ts';

const every = '{ cron: "* * * * * *" }';
const once = '{ every: 100d }';

let world: Workers;
let worker: WorkerProcess;
let whole: string;

/** A worker of two connectors with a run of one listing every second, of which one comes later, and of slow ones. */
async function start(slow: readonly string[] = []): Promise<void> {
  world = await useWorkers({
    connectors: [
      { name: 'quick', definition: 'workspace-notes', size: 'tiny', schedule: every },
      ...slow.map((name) => ({ name, definition: 'email-marketing', size: 'tiny' as const, schedule: once })),
      { name: 'added', definition: 'workspace-notes', size: 'tiny', schedule: every },
    ],
    latencyMs: 0,
    concurrency: 1,
  });
  whole = readFileSync(world.config, 'utf8')
    .replaceAll(/^( {2}\w+: \{ definition: email-marketing,.*PerSecond:) 1000/gm, '$1 4')
    .replaceAll('definition: workspace-notes,', '$& include: [users],');
  configure((line) => !/^ {2}added:/.test(line));
  worker = world.start({}, { concurrency: 8 });
}

/** The config with these of its lines. */
function configure(isKept: (line: string) => boolean, edit = (text: string): string => text): void {
  writeFileSync(world.config, edit(whole.split('\n').filter(isKept).join('\n')));
}

const of =
  (connector: string, matches: (line: LogLine) => boolean) =>
  (line: LogLine): boolean =>
    line['connector'] === connector && matches(line);
const isRunEnded = (line: LogLine): boolean => line.msg === 'run ended';
const hasRead = (line: LogLine): boolean => line.msg === 'the config was read again';

// Proves promise 12.2
it('takes new connectors, ends removed ones after their page, and lets other runs continue', async () => {
  await start(['kept', 'changed', 'removed']);
  for (const name of ['kept', 'changed', 'removed']) await worker.until(of(name, isRunStarted));
  configure(
    (line) => !/^ {2}removed:/.test(line),
    (text) => text.replace(/^( {2}changed:.*concurrency:) 1/m, '$1 2'),
  );
  const from = worker.lines.length;
  worker.child.kill('SIGHUP');
  await worker.until(hasRead, from);
  expect(await worker.until(of('added', isRunEnded), from)).toMatchObject({ outcome: 'ok' });
  expect(await worker.until(of('removed', isRunEnded), from)).toMatchObject({ outcome: 'interrupted' });
  await worker.until(of('quick', isRunFinished), from);
  for (const name of ['kept', 'changed']) {
    expect(await worker.until(of(name, isRunEnded))).toMatchObject({ outcome: 'ok' });
    expect(worker.lines.filter(of(name, isRunStarted))).toHaveLength(1);
    expect(world.differences(name)).toEqual(noDifferences);
  }
  expect(worker.stray).toEqual([]);
});

// Proves promise 12.2
it('refuses a config with mistakes as a whole, and says so', async () => {
  await start();
  await worker.until(of('quick', isRunFinished));
  await using receiver = await startReceiver();
  whole = `${whole}allowNotifyHosts: [${JSON.stringify(receiver.host)}]\nnotify: { ops: { type: webhook, url: "${receiver.url}", kinds: [config-refused, recovered] } }\n`;
  configure((line) => !/^ {2}added:/.test(line));
  expect(await cli('reload')).toMatchObject({ code: 0 });
  configure(
    () => true,
    (text) => text.replace(/^ {2}added: .*$/m, '  added: { definition: no-such-type, id: x, sink: test }'),
  );
  const from = worker.lines.length;
  expect(await cli('reload')).toMatchObject({ code: 2, stderr: expect.stringContaining('no-such-type') });
  worker.child.kill('SIGHUP');
  const refused = await worker.until((line) => /^the config .* cannot be used/.test(line.msg), from);
  expect(refused['err']).toMatchObject({ message: expect.stringContaining('no-such-type') });
  await worker.until(of('quick', isRunFinished), worker.lines.length);
  expect(worker.lines.slice(from).filter(of('added', isRunStarted))).toEqual([]);
  await receiver.arrived(1);
  expect(receiver.bodies()[0]).toMatchObject({
    kind: 'config-refused',
    text: expect.stringContaining('no-such-type') as string,
  });

  configure(() => true);
  expect(await cli('reload')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/: applied .*added: added\n$/),
  });
  await worker.until(of('added', isRunFinished));
  await receiver.arrived(2);
  expect(receiver.bodies().map(({ kind }) => kind)).toEqual(['config-refused', 'recovered']);
  expect(await cli('reload')).toMatchObject({ code: 0, stdout: expect.stringMatching(/: 2 connectors\n$/) });
});

it('reads its files again by itself with "watch: true", once they are still', async () => {
  await start();
  await worker.until(of('quick', isRunFinished));
  configure(
    (line) => !/^ {2}added:/.test(line),
    (text) => `watch: true\n${text}`,
  );
  expect((await cli('reload')).code).toBe(0);
  configure(
    () => true,
    (text) => `watch: true\n${text}`,
  );
  await worker.until(of('added', isRunFinished));
  expect(worker.lines.filter(hasRead)).toHaveLength(2);
});

function cli(...args: readonly string[]) {
  return callCli(['--config', world.config, ...args], { cwd: world.folder, env: world.env });
}
