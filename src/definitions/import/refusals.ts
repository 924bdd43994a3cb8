import type { Mode } from './modes.ts';
import type { Operation } from './operation.ts';
import { holdsTemplate, oneLine, plainText } from './parts.ts';

/** Why an operation cannot be a listing of a definition in this mode, whatever a person answers. */
export function refusedIn(list: Operation, { name }: Mode): string | null {
  const both = refusedAlways(list);
  return both ?? (name === 'hosted' ? refusedHosted(list) : refusedDirect(list));
}

function refusedAlways({
  method,
  hasOwnServers,
  needsCookie,
  path,
  extractor,
  records,
  description,
}: Operation): string | null {
  if (method !== 'GET' && method !== 'POST') return `it is a ${oneLine(method, 20)}, not a GET or POST`;
  if (hasOwnServers) return 'it has an address apart from that of the service';
  if (needsCookie) return 'it needs a cookie: none is ever sent';
  if (/\breturns a sample of\b/i.test(description)) {
    return `it lists a sample only: "${oneLine(description, 200)}"`;
  }
  if (holdsTemplate(path)) return 'its path holds a template';
  if (extractor !== null && records === null) {
    return `the place of its records is of a form that is not known: ${oneLine(extractor, 80)}`;
  }
  return null;
}

function refusedHosted({ action, params }: Operation): string | null {
  if (action !== 'list') return 'the API offers no list of it, only a search of the service';
  const unnamed = params.find(({ sent, name, isRequired }) => isRequired && sent !== name);
  if (unnamed !== undefined) return `its parameter ${oneLine(unnamed.sent, 60)} cannot be declared`;
  return null;
}

const ownHeaders = new Set(['content-type', 'authorization', 'host', 'cookie', 'content-length']);

function refusedDirect(list: Operation): string | null {
  const { body, filter, transform, path, params } = list;
  if (transform !== null) return 'its records are made by a template';
  if (filter !== null) return `its records are filtered by a template: ${oneLine(filter, 80)}`;
  if (body.problem !== null) return body.problem;
  if (!/^\/[\w/.~!$'()*+,;=:@{}-]*$/.test(path)) {
    return `its path has signs that are not sent: ${oneLine(path, 80)}`;
  }
  const header = params.find(({ place, name }) => place === 'header' && ownHeaders.has(name.toLowerCase()));
  if (header !== undefined && plainText(header.fallback) !== 'application/json') {
    return `its header ${header.name} is set by this program, the service expects another value`;
  }
  return null;
}
