import type Database from 'better-sqlite3';
import { quoted } from '../../sinks/sqlite/quoted.ts';
import { isNear, slipsAllowed } from '../words.ts';
import { indexTables } from './index-names.ts';
import { areSpellingsListed, tellingTrigrams } from './spelling.ts';

/** More spellings to compare than that, or more that fit, take longer than the rows would. */
const maxCompared = 200_000;
const maxNear = 1_000;

/** The indexed words that are `word` with the slips that are allowed; null where the list of spellings cannot tell, or it would take too long. */
export function findNearWords(db: Database.Database, table: string, word: string): readonly string[] | null {
  const slips = slipsAllowed(word);
  const telling = areSpellingsListed(word, slips) ? tellingTrigrams(word, slips) : null;
  if (telling === null) return null;
  const { spellings, trigrams } = indexTables(table);
  const letters = Array.from(word).length;
  const candidates = db
    .prepare<[string, number, number], string>(
      `SELECT word FROM ${quoted(spellings)}
       WHERE id IN (SELECT rowid FROM ${quoted(trigrams)} WHERE ${quoted(trigrams)} MATCH ?)
         AND length(word) BETWEEN ? AND ?`,
    )
    .pluck()
    .iterate(telling.map((trigram) => `"${trigram}"`).join(' OR '), letters - slips, letters + slips);
  const near: string[] = [];
  let compared = 0;
  for (const candidate of candidates) {
    compared += 1;
    if (isNear(word, candidate)) near.push(candidate);
    if (compared > maxCompared || near.length > maxNear) return null;
  }
  return near;
}
