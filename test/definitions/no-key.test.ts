import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { findDefinitions, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { it } from '../support/it.ts';

const text = `
name: visits
title: Visits
id: 3f2c8a5e-6d1b-4c0f-9a77-1f0e5b8c2d44
rateLimit: { requestsPerSecond: 5, concurrency: 2 }
entities:
  days:
    fields: { day: string, pages: array }
    key: none
    actions: { list: {} }
    pagination: { kind: single }
    deletes: never
`;

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('an entity without a key', () => {
  it('has a field with the hash of its records as its key', () => {
    writeFileSync(path.join(folder, 'visits.yaml'), text);
    const [days] = loadDefinitions([folder]).get('visits')?.entities.values() ?? [];
    expect(days).toMatchObject({ key: ['record_hash'], isKeyless: true });
    expect(days?.table.columns.map(({ name }) => name)).toEqual(['record_hash', 'day', 'pages']);
    expect(days?.descriptions.get('record_hash')).toBe(
      'Hash of the record, in place of the key that the service does not give',
    );
  });

  it('may have a field of that name as its key, which is one like any other', () => {
    const own = text.replace('day: string', 'record_hash: string').replace('key: none', 'key: [record_hash]');
    writeFileSync(path.join(folder, 'visits.yaml'), own);
    const [days] = loadDefinitions([folder]).get('visits')?.entities.values() ?? [];
    expect(days).not.toHaveProperty('isKeyless');
  });

  it.each([
    ['deletes: never', 'deletes: confirm', 'deletes: expected never beside key: none (got confirm)'],
    ['    deletes: never\n', '', 'deletes: expected never beside key: none (got sweep)'],
    ['key: none', 'key: nothing', 'key: expected an array, got a string'],
    ['key: none', 'key: []', 'key: expected at least 1 elements'],
    ['day: string', 'record_hash: string', 'fields.record_hash: is the name of the hash'],
    [
      'list: {}',
      'list: {}, get: { params: { day: { type: string, required: true } }, key: { day: day } }',
      'actions.get: expected none beside key: none: nothing names one record',
    ],
    [
      'deletes: never',
      'deletes: never\n    explode: { field: pages, into: day_pages, fields: { url: string }, key: [url] }',
      'explode: expected none beside key: none',
    ],
  ])('is refused with nonsense beside it: %s as %s', (from, to, expected) => {
    const changed = text.replace(from, to);
    expect(changed).not.toBe(text);
    writeFileSync(path.join(folder, 'visits.yaml'), changed);
    const problems = findDefinitions([folder]).problems.map(({ path: at, message }) => `${at}: ${message}`);
    expect(problems.join('\n')).toContain(expected);
  });
});
