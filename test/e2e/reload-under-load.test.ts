import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { noDifferences } from '../support/sample-sinks.ts';
import { useWorkers } from '../support/use-workers.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';
import { isRunStarted, type LogLine } from '../support/worker-process.ts';

const reloads = repeats('TRIALS', { share: 4, full: 40 });
const seed = startSeed();
/** Of these, the first ones are the same in every config. */
const all = isLong ? 100 : 4;
const steady = isLong ? 70 : 2;
const nameOf = (index: number): string => `c${String(index).padStart(3, '0')}`;
const names = Array.from({ length: all }, (_, index) => nameOf(index));
const unchanged = names.slice(0, steady);
/** Runs take seconds: as many calls as they make. */
const perSecond = isLong ? 2 : 8;

// Proves promise 12.2
it(
  `loses, doubles and interrupts no run of a connector that was not changed (${reloads} reloads, ${all} connectors, seed ${seed})`,
  async () => {
    const random = seededRandom(seed);
    const world = await useWorkers({
      connectors: names.map((name) => ({
        name,
        definition: 'email-marketing',
        size: 'tiny',
        schedule: '{ cron: "* * * * * *" }',
      })),
      latencyMs: 0,
      concurrency: 1,
    });
    const whole = readFileSync(world.config, 'utf8').replaceAll('PerSecond: 1000', `PerSecond: ${perSecond}`);
    const configure = (isKept: (name: string) => boolean, edit = (line: string): string => line): void => {
      const lines = whole.split('\n').flatMap((line) => {
        const name = /^ {2}(c\d{3}):/.exec(line)?.[1];
        if (name === undefined || unchanged.includes(name)) return [line];
        return isKept(name) ? [edit(line)] : [];
      });
      writeFileSync(world.config, lines.join('\n'));
    };
    configure(() => true);
    const worker = world.start({}, { concurrency: all, maxRuns: all });
    for (const name of names) await worker.until(of(name, isRunStarted));
    let refused = 0;
    const running: number[] = [];
    for (let reload = 1; reload <= reloads; reload += 1) {
      const left = new Set(names.filter(() => random() < 0.7));
      configure(
        (name) => left.has(name),
        (line) => line.replace('concurrency: 1', `concurrency: ${1 + Math.floor(random() * 4)}`),
      );
      const isBroken = reload % 4 === 0;
      if (isBroken) {
        writeFileSync(world.config, readFileSync(world.config, 'utf8').replace('redis:', 'rediz:'));
      }
      const from = worker.lines.length;
      running.push(runningIn(worker.lines).length);
      worker.child.kill('SIGHUP');
      const end = await worker.until(
        (line) => /^the config was read again(?: and cannot be used|$)/.test(line.msg),
        from,
      );
      const isRefused = end.msg.includes('cannot be used');
      if (isRefused) refused += 1;
      expect(isRefused, JSON.stringify(end['err'])).toBe(isBroken);
    }
    expect(refused).toBe(Math.floor(reloads / 4));
    configure(() => true);
    const from = worker.lines.length;
    worker.child.kill('SIGHUP');
    // Each runs under the last config, those that came back too: no schedule is lost.
    await worker.until((line) => line.msg === 'the config was read again', from);
    const last = worker.lines.length;
    for (const name of names) await worker.until(of(name, isRunEnded), last);
    process.stderr.write(
      `${Math.min(...running)} to ${Math.max(...running)} of ${all} connectors ran at a reload; ${worker.lines.filter(isRunEnded).length} runs ended\n`,
    );
    for (const name of unchanged) {
      const runs = worker.lines.filter(of(name, (line) => isRunStarted(line) || isRunEnded(line)));
      // Each run ends before the next one begins, whichever reading of the config made it.
      const kinds = runs.map((line) => (isRunStarted(line) ? 'started' : 'ended'));
      expect(kinds, name).toEqual(kinds.map((_, at) => (at % 2 === 0 ? 'started' : 'ended')));
      expect(
        runs.filter(isRunEnded).filter(({ outcome }) => outcome !== 'ok'),
        name,
      ).toEqual([]);
      expect(world.differences(name), name).toEqual(noDifferences);
    }
    // The newest config and one before it.
    let open = 1;
    for (const { msg } of worker.lines) {
      if (msg === 'the config was read again') open += 1;
      if (msg === 'the runs of the older config are over') open -= 1;
      expect(open).toBeLessThanOrEqual(2);
    }
    expect(worker.stray).toEqual([]);
  },
  isLong ? 1_800_000 : 120_000,
);

function of(connector: string, matches: (line: LogLine) => boolean): (line: LogLine) => boolean {
  return (line) => line['connector'] === connector && matches(line);
}

function isRunEnded({ msg }: LogLine): boolean {
  return msg === 'run ended';
}

/** Connectors whose last line is of a run that began. */
function runningIn(lines: readonly LogLine[]): readonly string[] {
  return names.filter((name) => {
    const last = lines.findLast(of(name, (line) => isRunStarted(line) || isRunEnded(line)));
    return last !== undefined && isRunStarted(last);
  });
}
