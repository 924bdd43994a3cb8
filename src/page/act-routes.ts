import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { SyncError } from '../core/errors.ts';
import { usage } from '../core/usage-error.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { confirmPage, donePage, undonePage } from './act-page.ts';
import { connectorActs } from './connector-acts.ts';
import { actNames, sendPage, type ActName, type PageWorld } from './layout.ts';
import { isFromHere, type PageAccess } from '../monitor/page-access.ts';
import { actQuery, nameParam } from './page-query.ts';
import { fingerprint, type ActWorld, type Prepare } from './prepared-act.ts';
import { runActs } from './run-acts.ts';

interface ActRoutes extends Omit<ActWorld, 'signal'> {
  readonly access: PageAccess;
  readonly world: (request: FastifyRequest) => PageWorld;
  readonly log: JobLog;
}

export const actRoute = '/act/:name';

const acts: Readonly<Record<ActName, Prepare>> = { ...connectorActs, ...runActs };

const actForm = z
  .object({ token: z.string().catch(''), seen: z.string().catch(''), reason: z.string().catch('') })
  .catch({ token: '', seen: '', reason: '' });

/**
 * What a person can do from a page: GET says what will happen, POST does it. Both need a token that may act. A POST
 * needs a form of this server besides: the browser says that it is from here, it carries the token of the session's
 * forms, and what its page announced would still happen.
 */
export function actRoutes(pages: FastifyInstance, options: ActRoutes): void {
  const { access, log, world } = options;
  const closing = new AbortController();
  pages.addHook('preClose', async () => closing.abort());
  const actWorld: ActWorld = { ...options, signal: closing.signal };

  const answer = async (request: FastifyRequest, reply: FastifyReply, body: unknown) => {
    const now = world(request);
    const { visitor } = now;
    const refused = (message: string): Promise<FastifyReply> =>
      sendPage(reply.code(403), undonePage({ title: 'Nothing was done', message, done: [] }, now));
    if (visitor === null) return await refused(readOnly);
    if (visitor.may !== 'act') return await refused(`The token "${visitor.name}" may only read.`);
    const { name } = nameParam.parse(request.params);
    if (!isActName(name)) throw usage(`There is no act "${name}".`);
    const form = body === null ? null : actForm.parse(body);
    if (form !== null && !(isFromHere(request) && access.isFormOf(request, form.token))) {
      return await refused('The form is of another page or another session. Open it again from here.');
    }
    const done: string[] = [];
    const query = actQuery.parse(request.query);
    const back = query.connector === '' ? '' : `connectors/${query.connector}`;
    try {
      const act = await acts[name](query, actWorld);
      const seen = fingerprint(act);
      if (form?.seen !== seen) {
        const address = `${name}${new URL(request.url, 'http://here').search}`;
        const shown = { address, formToken: access.formToken(request), seen, hasChanged: form !== null };
        return await sendPage(reply.code(form === null ? 200 : 409), confirmPage(act, shown, now));
      }
      await act.act({ who: visitor.name, reason: form.reason, tell: (line) => void done.push(line) });
      log.info({ who: visitor.name, act: name, of: act.of.slice(0, mostLogged) }, 'done from a page');
      return await sendPage(reply, donePage(act, done, now));
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      const isRefused = error.code === 'USAGE' || error.code === 'CONNECTOR_BUSY';
      const title = done.length === 0 ? 'Nothing was done' : 'Not all of it was done';
      const page = undonePage({ title, message: error.message, done, back }, now);
      return await sendPage(reply.code(isRefused ? 409 : 503), page);
    }
  };
  pages.get(actRoute, async (request, reply) => await answer(request, reply, null));
  pages.post(actRoute, async (request, reply) => await answer(request, reply, request.body ?? {}));
}

const readOnly =
  'These pages only read, because the config has no http.token and no http.tokens. Set one and start this program again; who logs in with it can then act.';

const mostLogged = 20;

function isActName(name: string): name is ActName {
  return (actNames as readonly string[]).includes(name);
}
