import { describe, expect, it } from 'vitest';
import { exitCodeOfReport } from '../../src/cli/output/exit-codes.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { editAccount, type EditedAccount } from '../support/service/edited-account.ts';
import { text } from '../support/service/served-api.ts';
import { allSampleSinks } from '../support/all-sample-sinks.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { entityNamed } from '../support/sync-once.ts';
import { triedSinks } from '../support/trials.ts';

const sinks = triedSinks;
const lists = entityNamed(builtInDefinition('email-marketing'), 'lists').table;
const members = entityNamed(builtInDefinition('email-marketing'), 'list_members').table;
const automations = entityNamed(builtInDefinition('email-marketing'), 'automations').table;

async function openEdited(sink: (typeof sinks)[number]): Promise<[RevisionWorld, EditedAccount]> {
  let account: EditedAccount | null = null;
  const world = await openRevisionWorld({
    definitionName: 'email-marketing',
    sink,
    size: { members: 400 },
    entities: ['lists', 'list_members', 'automations'],
    wrap: (other) => (account = editAccount(other)),
  });
  if (account === null) throw new Error('the account was not wrapped');
  return [world, account];
}

function removeMembers(world: RevisionWorld, account: EditedAccount, count: number): void {
  const ids = [...world.truthOf('list_members').values()].map(({ columns }) => text(columns['id']));
  for (const id of ids.slice(0, count)) account.remove('list_members', id);
}

const deletes = (report: RunReport, entity: string) => {
  const one = report.entities.find((each) => each.entity === entity);
  return { deleted: one?.deleted, withheld: one?.withheld, why: one?.withheldBecause };
};

describe.each(sinks)('when a third of a list is deleted upstream (%s)', (sink) => {
  // Proves promise 4
  it('keeps the rows and ends with 6 until they are allowed to go', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    removeMembers(world, account, 120);

    const guarded = await world.sync({ isFull: true });
    expect(deletes(guarded, 'list_members')).toEqual({ deleted: 0, withheld: 120, why: 'share' });
    expect(exitCodeOfReport(guarded)).toBe(6);
    expect(world.stored(members).size).toBe(400);

    // It stays so, also when the list is read by its changes only.
    const again = await world.sync();
    expect(deletes(again, 'list_members')).toEqual({ deleted: 0, withheld: 120, why: 'share' });
    expect(exitCodeOfReport(again)).toBe(6);

    const allowed = await world.sync({ allowDeletes: true });
    expect(deletes(allowed, 'list_members')).toEqual({ deleted: 120, withheld: 0, why: null });
    expect(exitCodeOfReport(allowed)).toBe(0);
    expect(world.stored(members).size).toBe(280);
  }, 60_000);

  it('deletes below the limit without asking', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    removeMembers(world, account, 80);
    const report = await world.sync({ isFull: true });
    expect(deletes(report, 'list_members')).toEqual({ deleted: 80, withheld: 0, why: null });
    expect(exitCodeOfReport(report)).toBe(0);
  }, 60_000);
});

// Proves promise 4
it.each(sinks)('asks for more rows than a run can in plain runs, until none is left (%s)', async (sink) => {
  const [world, account] = await openEdited(sink);
  await using _world = world;
  await world.sync();
  removeMembers(world, account, 300);
  const slow = { requestsPerSecond: 0.1 };
  const waiting = ({ entities }: RunReport) =>
    entities.map(({ toConfirm }) => toConfirm).reduce((sum, rows) => sum + rows, 0);
  const first = await world.sync({ isFull: true, allowDeletes: true }, slow);
  expect([deletes(first, 'list_members').deleted, waiting(first)]).toEqual([200, 100]);
  expect(first.confirmation).toEqual({ callsPerRun: 200, requestsPerSecond: 0.1 });
  const second = await world.sync({}, slow);
  expect([deletes(second, 'list_members').deleted, waiting(second)]).toEqual([100, 0]);
  expect(second.confirmation).toBeUndefined();
  expect(world.stored(members).size).toBe(100);
});

describe.each(sinks)('when deletes come little by little (%s)', (sink) => {
  // Proves promise 4
  it('counts those of 24 hours together, against the rows before them', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const later = (hours: number) => ({
      clock: { ...systemClock, now: () => Date.now() + hours * 3_600_000 },
    });
    removeMembers(world, account, 60);
    const first = await world.sync({ isFull: true }, later(1));
    expect(deletes(first, 'list_members')).toEqual({ deleted: 60, withheld: 0, why: null });
    removeMembers(world, account, 60);
    const second = await world.sync({ isFull: true }, later(2));
    expect(deletes(second, 'list_members')).toEqual({ deleted: 0, withheld: 60, why: 'share' });
    expect(second.entities.find(({ entity }) => entity === 'list_members')?.withholding).toMatchObject({
      dayAgo: 400,
      deletedInDay: 60,
    });
    expect(exitCodeOfReport(second)).toBe(6);
    const nextDay = await world.sync({}, later(27));
    expect(deletes(nextDay, 'list_members')).toEqual({ deleted: 60, withheld: 0, why: null });
    expect(exitCodeOfReport(nextDay)).toBe(0);
  }, 60_000);
});

describe.each(sinks)('when lists with many members are deleted (%s)', (sink) => {
  // Proves promise 4
  it('keeps a list that came back empty together with its members, however often it does', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    account.hide((entity) => entity === 'lists');
    for (const why of ['empty', 'along', 'along']) {
      const report = await world.sync();
      expect(deletes(report, 'lists')).toEqual({ deleted: 0, withheld: 1, why });
      expect(deletes(report, 'list_members')).toMatchObject({ deleted: 0 });
      expect(exitCodeOfReport(report)).toBe(6);
    }
    expect(world.stored(members).size).toBe(400);
    const cutShort = await world.sync({ maxCalls: 1 });
    expect(cutShort.outcome).toBe('partial');
    expect(exitCodeOfReport(cutShort), 'what is withheld is withheld still').toBe(6);
    const allowed = await world.sync({ allowDeletes: true });
    expect(deletes(allowed, 'list_members')).toMatchObject({ deleted: 400 });
    expect(exitCodeOfReport(allowed)).toBe(0);
  }, 60_000);

  // Proves promise 4
  it('keeps all of it where another list came in its place', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const [list] = [...world.stored(lists).values()];
    account.remove('lists', text(list?.columns['id']));
    account.add('lists', { ...account.list('lists', {}).slice(0, 1)[0], id: 'other', name: 'Another list' });
    for (let run = 0; run < 2; run += 1) {
      const report = await world.sync();
      expect(deletes(report, 'lists')).toEqual({ deleted: 0, withheld: 1, why: 'replaced' });
      expect(exitCodeOfReport(report)).toBe(6);
    }
    expect(world.stored(members).size).toBe(400);
  }, 60_000);
});

describe.each(sinks)('when an entity comes back empty (%s)', (sink) => {
  // Proves promise 4
  it('is untouched the first time, and a second run that agrees deletes', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const had = world.stored(automations).size;
    expect(had).toBeGreaterThan(0);
    account.hide((entity) => entity === 'automations');

    const once = await world.sync();
    expect(deletes(once, 'automations')).toEqual({ deleted: 0, withheld: had, why: 'empty' });
    expect(exitCodeOfReport(once)).toBe(6);
    expect(world.stored(automations).size).toBe(had);

    const twice = await world.sync();
    expect(deletes(twice, 'automations')).toEqual({ deleted: had, withheld: 0, why: null });
    expect(world.stored(automations).size).toBe(0);
  }, 60_000);

  it('is unchanged when it comes back', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const had = world.stored(automations).size;
    account.hide((entity) => entity === 'automations');
    await world.sync();
    account.hide(() => false);
    const report = await world.sync();
    expect(deletes(report, 'automations')).toEqual({ deleted: 0, withheld: 0, why: null });
    expect(report.entities.find(({ entity }) => entity === 'automations')?.counts.updated).toBe(0);
    expect(world.stored(automations).size).toBe(had);
  }, 60_000);
});

describe.each(sinks)('a record that comes back (%s)', (sink) => {
  // Proves promise 4
  it('is revived under its row, as a change that a warehouse sees', async () => {
    const [world, account] = await openEdited(sink);
    await using _world = world;
    await world.sync();
    const [id = ''] = [...world.truthOf('list_members').values()].map(({ columns }) => text(columns['id']));
    account.remove('list_members', id);
    await world.sync({ isFull: true });
    const deleted = rowOf(sink, world, id);
    expect(deleted._deleted_at).not.toBeNull();

    account.restore('list_members', id);
    const report = await world.sync({ isFull: true });
    const revived = rowOf(sink, world, id);
    expect(report.entities.find(({ entity }) => entity === 'list_members')?.counts.updated).toBe(1);
    expect(revived).toMatchObject({ _row: deleted._row, _deleted_at: null });
    expect(revived._seq).toBeGreaterThan(deleted._seq);
  }, 60_000);
});

interface MarkedRow {
  readonly _row: number;
  readonly _seq: number;
  readonly _deleted_at: string | null;
}

function rowOf(sink: (typeof sinks)[number], world: RevisionWorld, id: string): MarkedRow {
  const [row] = allSampleSinks[sink].ledger(
    world.folder,
    `SELECT _row, _seq, _deleted_at FROM email_marketing__list_members WHERE id = '${id}'`,
  ) as readonly MarkedRow[];
  if (row === undefined) throw new Error(`no member ${id}`);
  return row;
}
