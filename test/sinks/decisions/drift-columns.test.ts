import { describe, expect, it } from 'vitest';
import type { ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import type { JsonType } from '../../../src/core/records.ts';
import {
  chooseColumns,
  mergeDrift,
  newsOf,
  otherFields,
  rememberDrift,
  type NotedDrift,
} from '../../../src/sinks/decisions/drift-columns.ts';

const members = 'members' as EntityName;
const of = (field: string, type: JsonType, more: Partial<NotedDrift> = {}): NotedDrift => ({
  field,
  kind: 'undeclared',
  type,
  isRefused: false,
  ...more,
});
const table = { key: ['id'], declared: [{ name: 'id', type: 'string' as const }], stored: [], evolved: [] };

describe('the columns of undeclared fields', () => {
  it.each<[string, readonly NotedDrift[], string | undefined]>([
    ['one type', [of('nick', 'string'), of('nick', 'null')], 'string'],
    ['integers and other numbers', [of('nick', 'integer'), of('nick', 'number')], 'number'],
    ['two types', [of('nick', 'string'), of('nick', 'integer')], undefined],
    ['null alone', [of('nick', 'null')], undefined],
    ['refused records alone', [of('nick', 'string', { isRefused: true })], undefined],
    ['a name that no definition could declare', [of('nick name', 'string')], undefined],
    ['the name of a system column of PostgreSQL', [of('xmax', 'string')], undefined],
    ['a name that is declared', [of('id', 'string')], undefined],
    [
      'a field that was declared once',
      [of('nick', 'string'), of('nick', 'array', { kind: 'misfit' })],
      undefined,
    ],
  ])('follow from %s', (_what, drift, type) => {
    expect(chooseColumns(drift, table)[0]?.type).toBe(type);
  });

  it('take what an earlier definition has left, where its values fit', () => {
    const left = { ...table, stored: [{ name: 'nick', type: 'any' as const }] };
    expect(chooseColumns([of('nick', 'object')], left)[0]?.type).toBe('any');
    expect(chooseColumns([of('nick', 'string')], left)).toEqual([]);
  });
});

it('notes each field once, and again when it is accepted', () => {
  const memory = rememberDrift([of('nick', 'string', { isRefused: true })]);
  const met = { entity: members, field: 'nick', kind: 'undeclared', type: 'string' } as const;
  expect(newsOf(memory, { ...met, isRefused: true })).toBe(null);
  expect(newsOf(memory, met)).toEqual(of('nick', 'string'));
  expect(newsOf(memory, met)).toBe(null);
  expect(newsOf(memory, { ...met, isRefused: true })).toBe(null);
});

it('notes 200 fields of an entity by name, and all others as one', () => {
  const memory = rememberDrift([]);
  const noted = Array.from({ length: 202 }, (_, index) =>
    newsOf(memory, { entity: members, field: `field_${index}`, kind: 'undeclared', type: 'string' }),
  );
  expect(noted.slice(198).map((one) => one?.field)).toEqual([
    'field_198',
    'field_199',
    otherFields,
    undefined,
  ]);
});

it('says in one row of a field which types it had, and where its values are', () => {
  const seen = {
    connector: 'news' as ConnectorName,
    entity: members,
    firstSeenAt: 't1',
    firstRun: 'r1' as RunId,
  };
  const one = { ...seen, ...of('nick', 'string'), isEvolved: false, canWiden: false };
  const rows = (...all: readonly (typeof one)[]) =>
    mergeDrift(all).map(({ types, place }) => ({ types, place }));
  expect(rows(one, { ...one, type: 'null', firstSeenAt: 't2' })).toEqual([
    { types: ['string', 'null'], place: 'extra' },
  ]);
  expect(rows({ ...one, isEvolved: true })).toEqual([{ types: ['string'], place: 'column' }]);
  expect(rows({ ...one, isRefused: true })).toEqual([{ types: ['string'], place: 'quarantine' }]);
});
