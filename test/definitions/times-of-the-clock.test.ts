import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { fixedParamsAt } from '../../src/definitions/params.ts';
import { findDefinitions, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { it } from '../support/it.ts';

const text = `
name: visits
title: Visits
id: 3f2c8a5e-6d1b-4c0f-9a77-1f0e5b8c2d44
rateLimit: { requestsPerSecond: 5, concurrency: 2 }
entities:
  days:
    fields: { id: string, at: integer, seen: string, note: object }
    key: [id]
    actions:
      list:
        params: { from: string, to: string, hour: string, day: integer, s: integer, ms: string, range: object, since: integer }
    pagination: { kind: single }
    fixedParams:
      from: { days: -30, format: date }
      to: { days: 0, format: dateTime }
      hour: { days: 1, format: compactHour }
      day: { days: 0, format: compactDate }
      s: { days: 0, format: unix }
      ms: { days: 0, format: unixMs }
      range: { days: 7, format: date }
    incremental: { kind: since, field: at, format: unix, sinceParam: since, lookbackMs: 1000 }
    deletes: never
`;

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('a fixed parameter', () => {
  it('may be a time of the clock, in each of the formats, where it is no object', () => {
    writeFileSync(path.join(folder, 'visits.yaml'), text);
    const [days] = loadDefinitions([folder]).get('visits')?.entities.values() ?? [];
    if (days === undefined) throw new Error('expected the entity');
    expect(fixedParamsAt(days, Date.UTC(2026, 0, 15, 23, 59, 59, 999))).toEqual({
      from: '2025-12-16',
      to: '2026-01-15T23:59:59Z',
      hour: '20260116T23',
      day: 20_260_115,
      s: 1_768_521_599,
      ms: '1768521599999',
      range: { days: 7, format: 'date' },
    });
  });

  it.each([
    [
      '{ days: -30, format: date }',
      '{ days: -30 }',
      'fixedParams.from: expected a time of the clock such as',
    ],
    [
      '{ days: -30, format: date }',
      '{ days: -30, format: date, at: 1 }',
      'fixedParams.from: expected a time of',
    ],
    [
      '{ days: -30, format: date }',
      '{ days: -30.5, format: date }',
      'fixedParams.from: expected days to be a whole',
    ],
    [
      '{ days: -30, format: date }',
      '{ days: 9999, format: date }',
      'fixedParams.from: expected days to be a whole',
    ],
    [
      '{ days: -30, format: date }',
      '{ days: 1, format: iso }',
      'fixedParams.from: expected format to be one of date,',
    ],
    [
      '{ days: 0, format: unix }',
      '{ days: 0, format: date }',
      'fixedParams.s: expected format unix, unixMs or compactDate',
    ],
    ['from: string,', 'from: array,', 'fixedParams.from: expected a string or integer parameter for a time'],
    ['from: string,', 'from: { type: string, enum: [a] },', 'fixedParams.from: from: expected one of a'],
    [
      'deletes: never',
      'deletes: confirm',
      'deletes: expected never, or confirm and a get: with from each run lists',
    ],
    [
      'deletes: never',
      'deletes: sweep',
      'deletes: expected never, or confirm and a get: with from each run lists',
    ],
    [
      'field: at, format: unix',
      'field: at',
      'incremental.field: expected a field of type string that holds a time',
    ],
    [
      'field: at, format: unix',
      'field: note, format: unix',
      'field: expected a field of type integer, number or string for',
    ],
    ['format: unix, sinceParam', 'format: unixs, sinceParam', 'format: expected one of unix, unixMs'],
    [
      'sinceParam: since',
      'sinceParam: since, sinceFormat: iso',
      'sinceParam: expected a list parameter of type string',
    ],
    ['sinceParam: since', 'sinceParam: range', 'sinceParam: expected a list parameter of type string'],
  ])('is refused where it says nonsense: %s as %s', (from, to, expected) => {
    const changed = text.replace(from, to);
    expect(changed).not.toBe(text);
    writeFileSync(path.join(folder, 'visits.yaml'), changed);
    const problems = findDefinitions([folder]).problems.map(({ path: at, message }) => `${at}: ${message}`);
    expect(problems.join('\n')).toContain(expected);
  });
});
