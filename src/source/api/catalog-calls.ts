import * as z from 'zod';
import { SyncError } from '../../core/errors.ts';
import { isConnectorId, type ConnectorId } from '../../core/names.ts';
import type { ApiCall } from './api-caller.ts';
import { callFacts, type CallFacts } from './call-failure.ts';
import { invalidBody } from './classify-failure.ts';
import { parseJsonText } from '../../http/lossless-json.ts';

/** A connector type of the API's catalog. */
export interface SourceDefinition {
  readonly id: string | null;
  readonly name: string;
  readonly supportLevel: string | null;
}

/** A configured connector; what the service does not say is null. */
export interface ConnectorSummary {
  readonly id: ConnectorId;
  readonly name: string | null;
  readonly definitionId: string | null;
  /** The account at the third party, as that one names it; the service that comes with this program says it. */
  readonly account: string | null;
}

export interface ConnectorFilter {
  readonly workspace: string;
  readonly definitionId?: string;
}

const definition = z.object({
  sourceDefinitionId: z.string().nullish(),
  name: z.string(),
  supportLevel: z.string().nullish(),
});
const definitionList = z.object({ definitions: z.array(definition) });
/** As a path segment it leads to no other endpoint. */
const definitionPathId = /^[A-Za-z0-9_-]{1,128}$/;

const template = z.object({ actor_definition_id: z.string().nullish() });
const summary = z.object({
  id: z.string().refine(isConnectorId, 'expected letters, digits, "_" and "-"'),
  name: z.string().nullish(),
  account_id: z.string().min(1).nullish(),
  summarized_source_template: template.nullish(),
  source_template: template.nullish(),
});
/** `{data: [...]}`, as today, or the bare array: the outer shape is not part of the specification. */
const summaryList = z.union([
  z.object({ data: z.array(summary) }).transform(({ data }) => data),
  z.array(summary),
]);

/** Judged again where the id enters a path: `..` would lead to another endpoint, encoded or not. */
export function checkConnectorId(id: string): ConnectorId {
  if (isConnectorId(id)) return id;
  throw new SyncError('a connector id has 1 to 128 letters, digits, "_" or "-"; copy it from the service', {
    code: 'CONFIG_INVALID',
    recovery: 'stop',
  });
}

export function definitionsCall(name: string | null): ApiCall<readonly SourceDefinition[]> {
  const facts = catalogFacts('list source definitions');
  return {
    request: get('/api/v1/integrations/definitions/sources', name === null ? {} : { name }),
    facts,
    read: ({ text }) => readAnswer(text, definitionList, facts).definitions.map(toDefinition),
  };
}

/** One connector type. Throws USAGE for what is no id. */
export function definitionCall(id: string): ApiCall<SourceDefinition> {
  const facts = catalogFacts('read the source definition');
  if (!definitionPathId.test(id)) {
    throw new SyncError('an id of a definition has letters, digits, "_" and "-"; copy it from the service', {
      code: 'USAGE',
      recovery: 'stop',
    });
  }
  return {
    request: get(`/api/v1/integrations/definitions/sources/${id}`, {}),
    facts,
    read: ({ text }) => toDefinition(readAnswer(text, definition, facts)),
  };
}

function toDefinition(found: z.output<typeof definition>): SourceDefinition {
  return {
    id: found.sourceDefinitionId ?? null,
    name: found.name,
    supportLevel: found.supportLevel ?? null,
  };
}

export function findConnectorsCall(filter: ConnectorFilter): ApiCall<readonly ConnectorSummary[]> {
  const { workspace, definitionId } = filter;
  const facts = catalogFacts('find connectors');
  const query = {
    workspace_name: workspace,
    ...(definitionId === undefined ? {} : { definition_id: definitionId }),
  };
  return {
    request: get('/api/v1/integrations/connectors', query),
    facts,
    read: ({ text }) =>
      readAnswer(text, summaryList, facts)
        .map(toSummary)
        // A service that ignores the filter must not make the answer ambiguous.
        .filter(
          (found) =>
            definitionId === undefined ||
            found.definitionId === null ||
            found.definitionId.toLowerCase() === definitionId.toLowerCase(),
        ),
  };
}

export function connectorCall(id: ConnectorId): ApiCall<ConnectorSummary> {
  const facts = catalogFacts('read the connector');
  return {
    request: get(`/api/v1/integrations/connectors/${id}`, {}),
    facts,
    read(answer) {
      const found = toSummary(readAnswer(answer.text, summary, facts));
      if (found.id !== id) {
        throw invalidBody(facts, 'expected the connector that was asked for, got another one');
      }
      return found;
    },
  };
}

function toSummary(found: z.output<typeof summary>): ConnectorSummary {
  const { actor_definition_id: definitionId } =
    found.summarized_source_template ?? found.source_template ?? {};
  return {
    id: found.id,
    name: found.name ?? null,
    definitionId: definitionId ?? null,
    account: found.account_id ?? null,
  };
}

function get(path: string, query: Record<string, string>): ApiCall<unknown>['request'] {
  return { method: 'GET', path, query, body: null };
}

/** A body as the shape that the API promises; unknown members are left out. Throws `CallFailure` BODY_INVALID. */
export function readAnswer<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  facts: CallFacts,
): z.output<Schema> {
  let json: unknown;
  try {
    json = parseJsonText(text);
  } catch {
    throw invalidBody(facts, 'expected JSON, got something else');
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const path = parsed.error.issues[0]?.path.join('.') ?? '';
  throw invalidBody(facts, `the answer does not have the expected shape${path === '' ? '' : ` at ${path}`}`);
}

/** Facts of a call about the account rather than about records. `label`: for messages, as `find connectors`. */
export function catalogFacts(label: string, isWrite = false): CallFacts {
  return callFacts('catalog', label, { isWrite });
}
