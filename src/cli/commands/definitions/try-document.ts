import { fieldValue } from '../../../app/stored-fields.ts';
import { readJson } from '../../../core/json-text.ts';
import type { EntityTable, PreparedRecord } from '../../../core/records.ts';
import type { Entity } from '../../../definitions/definition.ts';
import type { TriedStep } from '../../../engine/try-listing.ts';
import { declarationOf } from '../schema.ts';
import { stepText } from './paging-text.ts';
import type { SeenCall } from './try-text.ts';

/** A call for machines; its records whole. */
export function callDocument(
  entity: Entity,
  { request, page, commit, problems, error, exchanges, next }: SeenCall,
) {
  const tables = [entity.table, ...(entity.explodedTable === null ? [] : [entity.explodedTable])];
  return {
    params: request.params,
    exchanges,
    metadata: page?.metadata ?? null,
    total: page?.total ?? null,
    bytes: page?.bytes ?? null,
    records: commit?.fetched ?? null,
    rows: tables.map((table, index) => ({
      entity: table.entity,
      rows: (commit?.rows[index]?.records ?? []).map((record) => rowDocument(table, record)),
    })),
    refused: (commit?.refused ?? []).map(({ reason, detail }) => ({ reason, detail })),
    filtered: commit?.filtered ?? 0,
    foreign: commit?.foreign ?? 0,
    drift: (commit?.drift ?? []).map((note) => ({
      ...note,
      line: declarationOf({ ...note, types: [note.type] }),
    })),
    problems,
    children: (commit?.children ?? []).map((child) => ({ entity: child.entity, params: child.params })),
    error: error === null ? null : { code: error.code, message: error.message },
    next: nextDocument(next),
  };
}

function rowDocument({ columns }: EntityTable, { values, extra }: PreparedRecord) {
  const fields = columns.map(
    ({ name, type }, index) => [name, fieldValue(type, values[index] ?? null)] as const,
  );
  return { fields: new Map(fields), extra: extra === null ? null : readJson(extra) };
}

function nextDocument(next: TriedStep) {
  const why = stepText(next);
  switch (next.kind) {
    case 'call':
      return { kind: next.kind, why, params: next.request.params };
    case 'end':
      return { kind: next.kind, why, proof: next.seal.proof, doubt: next.seal.doubt ?? null };
    case 'set-aside':
      return { kind: next.kind, why, code: next.failure.code };
    case 'stop':
      return { kind: next.kind, why, code: next.error.code };
  }
}
