import { describe, expect, it } from 'vitest';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import {
  chainReadings,
  mayResume,
  scopeOf,
  wasKeptWaiting,
  type EarlierRun,
} from '../../../src/sinks/decisions/resume-run.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';

const [lists, members] = ['lists' as EntityName, 'members' as EntityName];
const reading = { isIncremental: true, fullBefore: '2026-02-01T00:00:00.000Z', mayMove: false };
const root = {
  entity: lists,
  params: { all: true },
  inject: {},
  rank: 0,
  tree: null,
  treeDepth: null,
  parent: null,
  marker: null,
  base: null,
};
const plan: RunPlan = {
  run: 'r2' as RunId,
  kind: 'sync',
  window: '',
  backfill: '',
  startedAt: '2026-03-02T00:00:00.000Z',
  isFull: false,
  isBudgeted: false,
  reading: new Map([lists, members].map((entity) => [entity, reading])),
  keeps: [],
  keepPartitionsSince: '2026-01-01T00:00:00.000Z',
  tables: [],
  entities: [lists, members],
  roots: [root],
  choices: 'all',
  leaves: [members],
  continueAfter: '2026-03-01T00:00:00.000Z',
};
const earlier: EarlierRun = {
  run: 'r1' as RunId,
  origin: 1,
  state: 'interrupted',
  scope: scopeOf(plan, 'd1'),
  canContinue: true,
  isFull: false,
  hasStored: true,
  resumeAt: null,
  progressAt: '2026-03-01T12:00:00.000Z',
};

describe('resuming the newest run', () => {
  it.each(['interrupted', 'failed', 'partial'] as const)('resumes one that is %s', (state) => {
    expect(mayResume({ ...earlier, state }, plan, 'd1')).toBe(true);
  });

  it.each<[string, Partial<EarlierRun>]>([
    ['that has ended', { state: 'ok' }],
    ['that has ended degraded', { state: 'degraded' }],
    ['whose rows were lost', { canContinue: false }],
    ['that did not get on lately', { progressAt: plan.continueAfter }],
    ['of another definition', { scope: scopeOf(plan, 'd0') }],
    ['of other choices', { scope: scopeOf({ ...plan, choices: 'some' }, 'd1') }],
    ['of other roots', { scope: scopeOf({ ...plan, roots: [] }, 'd1') }],
  ])('resumes none %s', (_which, change) => {
    expect(mayResume({ ...earlier, ...change }, plan, 'd1')).toBe(false);
  });

  it('resumes by a full run only a full one', () => {
    const full = { ...plan, isFull: true };
    expect(mayResume(earlier, full, 'd1')).toBe(false);
    expect(mayResume({ ...earlier, isFull: true }, full, 'd1')).toBe(true);
    expect(mayResume({ ...earlier, isFull: true }, plan, 'd1')).toBe(true);
  });

  it('knows one that was kept waiting before it gave a page', () => {
    const resumeAt = '2026-03-01T13:00:00.000Z';
    expect(wasKeptWaiting({ ...earlier, resumeAt, hasStored: false })).toBe(true);
    expect(wasKeptWaiting({ ...earlier, resumeAt })).toBe(false);
    expect(wasKeptWaiting({ ...earlier, hasStored: false })).toBe(false);
    expect(wasKeptWaiting(null)).toBe(false);
  });
});

it('reads what leads to others under the same choices, and a leaf under any', () => {
  const scopes = (choices: string): readonly unknown[] =>
    [...chainReadings({ ...plan, choices }, 'd1', false).values()].map(({ scope }) => scope);
  const [ofLists, ofMembers] = scopes('all');
  expect(scopes('some')[0]).not.toBe(ofLists);
  expect(scopes('some')[1]).toBe(ofMembers);
});

it('says so when the plan lacks how an entity is read', () => {
  expect(() => chainReadings({ ...plan, reading: new Map() }, 'd1', false)).toThrow(
    'does not say how "lists" is read',
  );
});
