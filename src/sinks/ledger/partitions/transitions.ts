import type Database from 'better-sqlite3';
import { deleting } from './deleting.ts';
import { keeping } from './keeping.ts';
import type { Transition } from './states.ts';
import { walking } from './walking.ts';

export const transitions = { ...walking, ...deleting, ...keeping };

type StatementOf<One> =
  One extends Transition<infer Values, infer Row> ? Database.Statement<[Values], Row> : never;

export type PartitionTransitions = {
  readonly [Name in keyof typeof transitions]: StatementOf<(typeof transitions)[Name]>;
};

export function prepareTransitions(db: Database.Database): PartitionTransitions {
  const statements = Object.entries(transitions).map(([name, { sql }]) => [name, db.prepare(sql)] as const);
  return Object.fromEntries(statements) as PartitionTransitions;
}
