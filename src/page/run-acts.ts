import { cancelledText, cancelRun, checkRunning, findRun } from '../app/find-run.ts';
import { queuedText } from '../app/control-connectors.ts';
import { checkPublishable, publishNow } from '../app/publish-target.ts';
import { connectorOfRun, undeleteRun } from '../app/undelete-run.ts';
import { usage } from '../core/usage-error.ts';
import { targetNamed } from '../settings/chosen-targets.ts';
import { count, counted } from '../telemetry/format.ts';
import type { Prepare } from './prepared-act.ts';

/** What a person can do with a run or a target: by the functions of `cancel`, `undelete` and the worker's queue. */
export const runActs = {
  cancel: async ({ run: id }, { settings, program, clock, signal }) => {
    const found = await findRun(settings, id, program);
    const { connector } = found.run;
    checkRunning(found.run);
    return {
      title: `Cancel the run of ${connector}`,
      says: [
        `Run ${id} of ${connector}, which started at ${found.run.startedAt}, stops at its next page.`,
        'What it stored stays, and the next run resumes from there. A scheduled connector runs again when its time comes, unless it is paused.',
      ],
      of: [id],
      back: `connectors/${connector}`,
      act: async ({ who, tell }) => {
        const ended = await cancelRun(found, { who, clock, signal });
        tell(cancelledText(found.run, ended));
      },
    };
  },
  undelete: async ({ run: id }, { settings, program, clock, signal }) => {
    const found = await findRun(settings, id, program);
    const connector = connectorOfRun(settings, found);
    const deleted = (found.run.report?.entities ?? []).filter((one) => one.deleted > 0);
    if (deleted.length === 0) throw usage(`Run ${id} of ${connector.name} has deleted nothing.`);
    const rows = deleted.map((one) => `${count(one.deleted)} of ${one.entity}`);
    return {
      title: `Undelete what a run of ${connector.name} deleted`,
      says: [
        `Rows that run ${id} marked as deleted come back: up to ${rows.join(', ')}. Rows that were written since stay as they are.`,
        'The next full sync marks those again that really do not exist.',
      ],
      of: [id],
      back: `runs/${id}`,
      act: async ({ who, tell }) => {
        const how = { clock, signal, who, command: 'connector-sync, from a page' };
        const { run, entities } = await undeleteRun(connector, found.run.run, how);
        for (const [entity, one] of entities) tell(`${entity}: ${counted(one, 'row')} restored.`);
        tell(
          entities.size === 0
            ? `${connector.name}: run ${id} has no deletes left to undo.`
            : `This was run ${run ?? ''}.`,
        );
      },
    };
  },
  'publish-now': async ({ target: name }, { settings, program }) => {
    const target = targetNamed(settings, name);
    await checkPublishable(settings, target, program);
    const connectors = target.connectors.map((connector) => connector.name).join(', ');
    return {
      title: `Publish into ${name} now`,
      says: [
        `A worker publishes into ${name} what has changed since its last publication, of ${connectors}. It reads what is stored; no API is called.`,
      ],
      of: [name],
      back: `targets/${name}`,
      act: async ({ who, tell }) =>
        tell(`${name}: ${queuedText(await publishNow(settings, target, { by: who, program }))}.`),
    };
  },
} satisfies Record<string, Prepare>;
