import { instant, type Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { StateFile } from './open-state-file.ts';
import type { AuditEntry, AuditLog } from './service-state.ts';

interface AuditRow extends Omit<AuditEntry, 'fields'> {
  readonly fields: string;
}

/** Of one organization, so that no other one can push its entries out. */
const maxAuditEntries = 10_000;
const keptMs = 400 * 86_400_000;
/** Looking at every note what is too much would cost more than the note. */
const notesBetweenLooks = 100;
const maxTextLength = 255;

export function createAuditLog({ db, read, write }: StateFile, clock: Clock): AuditLog {
  const add = db.prepare(
    `INSERT INTO audit (at, organization_id, actor, token_kind, action, target, fields)
     VALUES (@at, @organizationId, @actor, @tokenKind, @action, @target, @fields)`,
  );
  const dropOld = db.prepare('DELETE FROM audit WHERE at < ?');
  const dropMany = db.prepare(
    `DELETE FROM audit WHERE organization_id = @organizationId AND sequence <=
       (SELECT sequence FROM audit WHERE organization_id = @organizationId ORDER BY sequence DESC LIMIT 1 OFFSET @kept)`,
  );
  const newest = db.prepare<[string, number], AuditRow>(
    `SELECT at, organization_id AS organizationId, actor, token_kind AS tokenKind, action, target, fields
     FROM audit WHERE organization_id = ? ORDER BY sequence DESC LIMIT ?`,
  );
  const organizations = db.prepare<[], string>('SELECT DISTINCT organization_id FROM audit').pluck();
  const prune = (): void => {
    dropOld.run(instant(clock.now() - keptMs));
    for (const organizationId of organizations.all()) dropMany.run({ organizationId, kept: maxAuditEntries });
  };

  let notes = 0;
  return {
    note: (entry) =>
      write(() => {
        // The first one looks too: a process may never live to see a hundred.
        if (notes % notesBetweenLooks === 0) prune();
        notes += 1;
        add.run({
          ...entry,
          at: instant(clock.now()),
          actor: entry.actor.slice(0, maxTextLength),
          target: entry.target.slice(0, maxTextLength),
          fields: JSON.stringify(
            entry.fields.slice(0, maxTextLength).map((name) => name.slice(0, maxTextLength)),
          ),
        });
      }),
    list: (organizationId, limit) =>
      read(() => newest.all(organizationId, Math.min(limit, maxAuditEntries))).map((row) => ({
        ...row,
        fields: readFields(row.fields),
      })),
  };
}

function readFields(text: string): readonly string[] {
  const value: unknown = JSON.parse(text);
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value;
  throw new SyncError("The service's data is damaged: expected names of fields.", {
    code: 'SINK_FAILED',
    recovery: 'stop',
  });
}
