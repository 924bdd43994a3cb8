import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../../core/json.ts';
import { keyPartsOf, readJson, writeJson } from '../../../core/json-text.ts';
import { hiddenWords } from '../../../core/record-mask.ts';
import type { Tx, Values } from '../../../sql/database.ts';
import { isClearPosition } from '../partitions/keeping.ts';
import { transitions } from '../partitions/transitions.ts';
import type { Masked, Rewriting } from './rewriting.ts';

/** A text that may quote a value, by what finds its row. */
interface KeptText {
  readonly at: Values;
  readonly text: string;
}

/** A kind of text: where it is, which of it may be from before the mask, and what it becomes. */
interface KindOfText {
  /** Of the rows that `select` gives, besides `text`. */
  readonly select: string;
  readonly hide: (value: JsonObject, masked: Masked) => JsonObject;
  readonly write: (tx: Tx, kept: KeptText) => Promise<unknown>;
}

const failed = `connector = :connector AND entity = :entity AND failure IS NOT NULL AND failed_at < :since`;
const withoutMessage = (value: JsonObject): JsonObject => ({ ...value, message: hiddenWords });

/* Failures quote services and records. What ended a run may be about any entity. */
const kinds: readonly KindOfText[] = [
  {
    select: `SELECT id, failure AS text FROM _sync_partitions WHERE ${failed}`,
    hide: withoutMessage,
    write: async (tx, { at, text }) =>
      await transitions.hideFailure(tx, { id: Number(at['id']), failure: text }),
  },
  {
    select: `SELECT id, failure AS text FROM _sync_downloads WHERE ${failed}`,
    hide: withoutMessage,
    write: updateBy('_sync_downloads', 'failure', ['id']),
  },
  {
    select: `SELECT run, report AS text FROM _sync_runs
      WHERE connector = :connector AND started_at < :since AND report IS NOT NULL AND :entity <> ''`,
    hide: (report, { table: { entity } }) => ({
      ...report,
      failures: elementsOf(report['failures'], (failure) =>
        failure['entity'] === entity ? withoutMessage(failure) : failure,
      ),
      error: isJsonObject(report['error']) ? withoutMessage(report['error']) : null,
    }),
    write: updateBy('_sync_runs', 'report', ['run']),
  },
  {
    select: `SELECT connector, kind, subject, detail AS text FROM _sync_conditions
      WHERE connector = :connector AND kind = 'failed' AND since < :since AND :entity <> ''`,
    hide: (detail) => ({ ...detail, text: hiddenWords }),
    write: updateBy('_sync_conditions', 'detail', ['connector', 'kind', 'subject']),
  },
  {
    select: `SELECT id, payload AS text FROM _sync_outbox
      WHERE connector = :connector AND kind = 'failed' AND at < :since AND :entity <> ''`,
    hide: (notice) => ({
      ...notice,
      text: hiddenWords,
      items: elementsOf(notice['items'], (item) => ({ ...item, text: hiddenWords })),
    }),
    write: updateBy('_sync_outbox', 'payload', ['id']),
  },
  {
    select: `SELECT id, detail AS text FROM _sync_actions
      WHERE connector = :connector AND entity = :entity AND action = 'refetch' AND at < :since`,
    hide: (detail, masked) => (hasMaskedKey(detail['key'], masked) ? {} : detail),
    write: updateBy('_sync_actions', 'detail', ['id']),
  },
];

/** Positions of walks, and texts that may quote a value; gives how many change. */
export async function hideTexts({ connector, step }: Rewriting, masked: Masked): Promise<number> {
  const { since } = masked;
  const { entity } = masked.table;
  const of = { connector, entity };
  const { count } = await step(
    async (tx) => {
      const hidden: { readonly kind: KindOfText; readonly kept: KeptText }[] = [];
      for (const kind of kinds) {
        const rows = await tx.rows<Readonly<Record<string, string>>>(kind.select, { ...of, since });
        for (const { text = '', ...at } of rows) {
          const value = readJson(text);
          const after = isJsonObject(value) ? writeJson(kind.hide(value, masked)) : text;
          if (after !== writeJson(value)) hidden.push({ kind, kept: { at, text: after } });
        }
      }
      const positions = await tx.rows(
        `SELECT id FROM _sync_partitions WHERE connector = :connector AND entity = :entity AND ${isClearPosition}`,
        of,
      );
      return { hidden, count: hidden.length + positions.length };
    },
    async (tx, { hidden }) => {
      await transitions.forgetClear(tx, of);
      for (const { kind, kept } of hidden) await kind.write(tx, kept);
    },
    entity,
  );
  return count;
}

function updateBy(table: string, column: string, names: readonly string[]): KindOfText['write'] {
  const found = names.map((name) => `${name} = :${name}`).join(' AND ');
  return async (tx, { at, text }) =>
    await tx.run(`UPDATE ${table} SET ${column} = :text WHERE ${found}`, { ...at, text });
}

function elementsOf(value: JsonValue | undefined, change: (element: JsonObject) => JsonObject): JsonValue {
  return isJsonArray(value) ? value.map((one) => (isJsonObject(one) ? change(one) : one)) : [];
}

function hasMaskedKey(keyText: JsonValue | undefined, { masking, table: { key } }: Masked): boolean {
  const parts = typeof keyText === 'string' ? keyPartsOf(keyText, key.length) : null;
  if (parts === null) return false;
  const members = Object.fromEntries(key.map((name, index) => [name, parts[index] ?? null]));
  const after = masking.row(members);
  return key.some((name) => memberOf(after, name) !== members[name]);
}
