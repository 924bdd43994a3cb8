import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { SinkPlace } from '../../src/sinks/sink-access.ts';
import { testProgram } from '../support/ensure-built.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { startScript } from '../support/run-cli.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { app } from '../support/sign-in/sign-in-provider.ts';
import { signInWorld } from '../support/sign-in/sign-in-world.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';
import type { KillStep, RenewingTask } from './renewing-process.ts';

const program = testProgram('sign-ins/renewing-process.mjs');
/** A killed holder costs the others so long on a server: short here, and longer than any answer takes. */
const claimMs = isLong ? 5_000 : 3_000;
const steps: readonly KillStep[] = ['answered', 'claimed', 'none', 'renewed', 'before', 'stored'];
/** Between them the service has issued tokens that are nowhere else. */
const inWindow: ReadonlySet<KillStep> = new Set(['renewed', 'answered']);

interface Figures {
  rounds: number;
  killed: number;
  lostInWindow: number;
}

describe.each(isLong ? (['sqlite', 'postgres'] as const) : (['postgres'] as const))(
  'two processes with one sign-in beside a %s sink',
  (kind) => {
    const rounds = repeats('KILLS', { share: 6, full: 200 }) / 2;
    const seed = startSeed();

    // Proves promise 10.2
    it(`use no refresh token twice, and say so where a kill has lost one (${rounds} rounds, seed ${seed})`, async () => {
      const random = seededRandom(seed);
      const figures: Figures = { rounds: 0, killed: 0, lostInWindow: 0 };
      const world = await renewingWorld(kind);
      for (let round = 0; round < rounds; round += 1) {
        const killAt = steps[isLong ? Math.floor(random() * steps.length) : round % steps.length] ?? 'none';
        await world.round(killAt, random() < 0.5, figures);
      }
      console.log(`${kind}: ${JSON.stringify(figures)}`);
      expect(figures.rounds).toBe(rounds);
      // The first to claim renews: in a few rounds it may be the other process each time.
      if (isLong) expect(figures.killed).toBeGreaterThan(0);
    }, 3_600_000);
  },
);

async function renewingWorld(kind: 'sqlite' | 'postgres') {
  const key = kind === 'sqlite' ? '' : randomBytes(32).toString('hex');
  const schema = `signed_${randomBytes(4).toString('hex')}`;
  const { url, connection } = kind === 'sqlite' ? { url: '', connection: null } : await sharedPostgres();
  const { provider, folder, signIn } = await signInWorld(
    kind === 'sqlite'
      ? {}
      : { sink: `{ type: postgres, url: '${url}', schema: ${schema} }`, signIns: `{ key: ${key} }` },
  );
  const sink: SinkPlace =
    connection === null
      ? { type: 'sqlite', path: path.join(folder, 'data', 'main.db') }
      : { type: 'postgres', connection, direct: null, schema, connections: 3 };
  const personSignsIn = async (): Promise<void> => {
    expect(await signIn()).toMatchObject({ code: 0 });
  };
  await personSignsIn();

  const start = async (killAt: KillStep) => {
    // Each a machine of its own, as far as files can tell.
    const home = mkdtempSync(path.join(tmpdir(), 'machine-'));
    const task: RenewingTask = {
      definitions: path.join(folder, 'definitions'),
      allowHosts: [`127.0.0.1:${provider.port}`],
      credentials: app,
      sink,
      key,
      claimMs,
      killAt,
      renewed: `${provider.origin}/renewed`,
    };
    writeFileSync(path.join(home, 'task.json'), JSON.stringify(task));
    const running = startScript([program, path.join(home, 'task.json')], home, { HOME: home, TMPDIR: home });
    const { stdout, stderr } = await running.result;
    rmSync(home, { recursive: true, force: true });
    if (running.child.signalCode === 'SIGKILL') return { kind: 'killed' } as const;
    if (stdout === '') throw new Error(`a process failed: ${stderr}`);
    // `as`: that program wrote it.
    const ended = JSON.parse(stdout) as { identity?: string; refused?: string };
    return { kind: 'ended', refused: ended.refused ?? null } as const;
  };

  return {
    /** The access token ends; two processes find that, and one of them may be killed on the way. */
    round: async (killAt: KillStep, isSlow: boolean, figures: Figures): Promise<void> => {
      provider.endAccess();
      provider.reused.length = 0;
      provider.answerLate(isSlow ? 200 : 0);
      const [first, second] = await Promise.all([start(killAt), start('none')]);
      figures.rounds += 1;
      if (first.kind === 'killed') figures.killed += 1;
      const isLost = first.kind === 'killed' && inWindow.has(killAt);
      expect(provider.reused.length).toBe(isLost ? 1 : 0);
      if (!isLost) {
        expect(second).toEqual({ kind: 'ended', refused: null });
        return;
      }
      figures.lostInWindow += 1;
      const calls = provider.requests.length;
      const after = await start('none');
      expect(provider.requests.length).toBe(calls);
      for (const { refused } of [second, after].filter((one) => one.kind === 'ended')) {
        expect(refused).toMatch(
          /was interrupted before its new tokens were stored: run "connector-sync login crm"$/,
        );
      }
      await personSignsIn();
    },
  };
}
