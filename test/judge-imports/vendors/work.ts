import { address, firstOnly, numbered, offset, single, token } from '../paging-kinds.ts';
import { basic, many, type Listing, type Vendor } from '../vendor.ts';

const asanaSize = { name: 'limit', max: 100, usual: 100, over: 'refuse' } as const;
const confluence = address({
  told: '_links.next',
  send: 'cursor',
  end: 'absent',
  isRelative: true,
  size: { name: 'limit', max: 250, usual: 25 },
});
const notionSize = { name: 'page_size', max: 100, usual: 100, over: 'refuse' } as const;
const notionPages = token({
  send: 'start_cursor',
  told: 'next_cursor',
  more: 'has_more',
  end: 'null',
  size: notionSize,
});

/** A connection of GraphQL: `first` and `after`, and `pageInfo` beside the nodes. */
function connection(at: string, match: RegExp, max: number): Partial<Listing> {
  const info = at.replace(/\.[^.]*$/, '.pageInfo');
  const pages = token({
    send: 'after',
    told: `${info}.endCursor`,
    more: `${info}.hasNextPage`,
    end: 'last',
    size: { name: 'first', max, usual: 50, over: 'refuse' },
  });
  return { at, match, pages };
}

const tools = { given: { owner: 'octo', name: 'tools' } };

/** At the fields that lead to the connection, in the order in which a query has them. */
function github(path: string, match?: RegExp): Partial<Listing> {
  const nested = path.split('.').join(String.raw`\s*(?:\([^)]*\))?\s*\{\s*(?:\.\.\. on \w+\s*\{\s*)?`);
  return connection(`data.${path}.nodes`, match ?? new RegExp(String.raw`\{\s*${nested}\s*\(`), 100);
}

/** Tasks, pages, code and documents. */
export const work: Readonly<Record<string, Vendor>> = {
  asana: {
    docs: 'developers.asana.com/docs/pagination: offset takes next_page.offset, limit 1 to 100; next_page is null at the end',
    base: '/api/1.0',
    credentials: { token: 'asana-1' },
    signed: { Authorization: 'Bearer asana-1' },
    all: {
      at: 'data',
      key: 'gid',
      pages: token({
        send: 'offset',
        told: 'next_page.offset',
        size: asanaSize,
        besides: (next, self) => ({ 'next_page.path': `${self.pathname}?offset=${next}` }),
        nullAtEnd: 'next_page',
      }),
    },
    entities: {
      ...many('workspaces projects users'),
      tasks: { of: { project: 'projects.gid' } },
      project_tasks: { of: { project_gid: 'projects.gid' } },
      task_projects: { of: { task_gid: 'tasks.gid' } },
      workspace_teams: { of: { workspace_gid: 'workspaces.gid' } },
      team_projects: { of: { team_gid: 'workspace_teams.gid' } },
      workspace_projects: { of: { workspace_gid: 'workspaces.gid' } },
      workspace_users: { of: { workspace_gid: 'workspaces.gid' } },
      team_users: { of: { team_gid: 'workspace_teams.gid' } },
      attachments: { of: { parent: 'tasks.gid' } },
      workspace_tags: { of: { workspace_gid: 'workspaces.gid' } },
      tag_tasks: { of: { tag_gid: 'workspace_tags.gid' } },
      project_sections: { of: { project_gid: 'projects.gid' } },
      section_tasks: { of: { section_gid: 'project_sections.gid' } },
      task_subtasks: { of: { task_gid: 'tasks.gid' } },
      task_dependencies: { of: { task_gid: 'tasks.gid' } },
      task_dependents: { of: { task_gid: 'tasks.gid' } },
    },
  },
  'clickup-api': {
    docs: 'developer.clickup.com/reference/gettasks: page from 0, 100 tasks each, last_page; docs by cursor, next_cursor',
    base: '',
    credentials: { api_key: 'pk_1' },
    signed: { Authorization: 'pk_1' },
    edits: {
      entities: {
        tasks: { paging: { by: 'page', param: 'page', first: 0 }, values: { include_closed: true } },
        view_tasks: { paging: { by: 'page', param: 'page', first: 0 } },
        time_tracking: { values: { start_date: 946_684_800_000, end_date: null } },
      },
    },
    all: { at: '{entity}', hasNumbers: true, pages: single() },
    entities: {
      teams: {},
      spaces: { of: { team_id: 'teams.id' } },
      folders: { of: { space_id: 'spaces.id' } },
      lists: { of: { folder_id: 'folders.id' } },
      tasks: {
        of: { list_id: 'lists.id' },
        // The open ones otherwise.
        whole: { include_closed: /^true$/ },
        pages: numbered({ page: 'page', first: 0, size: { usual: 100 }, last: 'last_page' }),
      },
      comments: { of: { task_id: 'tasks.id' }, pages: firstOnly(25) },
      goals: { of: { team_id: 'teams.id' } },
      // Those of other types have no tasks.
      views: { of: { team_id: 'teams.id' }, fields: { type: 'list' } },
      view_tasks: {
        at: 'tasks',
        of: { view_id: 'views.id' },
        pages: numbered({ page: 'page', first: 0, size: { usual: 30 }, last: 'last_page' }),
      },
      // Those of the last 30 days otherwise.
      time_tracking: { at: 'data', of: { team_id: 'teams.id' }, whole: { start_date: /^\d+$/ } },
      members: { of: { task_id: 'tasks.id' } },
      docs: {
        of: { workspace_id: 'teams.id' },
        pages: token({ send: 'cursor', told: 'next_cursor', size: { name: 'limit', max: 100, usual: 50 } }),
      },
    },
  },
  confluence: {
    docs: 'developer.atlassian.com/cloud/confluence/rest/v2/intro: _links.next is relative and has the cursor, limit to 250 (25)',
    base: '',
    credentials: { username: 'u', password: 'p', subdomain: 'site' },
    signed: { Authorization: basic('u', 'p') },
    edits: { entities: { audit: { key: 'none' } } },
    all: { at: 'results', pages: confluence },
    entities: {
      ...many('spaces pages blog_posts'),
      groups: { pages: offset({ offset: 'start', size: { name: 'limit', max: 200, usual: 200 } }) },
      audit: { pages: offset({ offset: 'start', size: { name: 'limit', max: 1000, usual: 1000 } }) },
    },
  },
  jira: {
    docs: 'developer.atlassian.com/cloud/jira/platform/rest/v3/intro/#pagination: startAt, maxResults, total; jql by nextPageToken',
    base: '',
    credentials: { username: 'u', password: 'p', subdomain: 'site' },
    signed: { Authorization: basic('u', 'p') },
    edits: { values: { jql: 'created >= "2000-01-01"' } },
    all: {},
    entities: {
      projects: {
        at: 'values',
        pages: offset({
          offset: 'startAt',
          size: { name: 'maxResults', max: 50, usual: 50 },
          total: 'total',
        }),
      },
      users: {
        key: 'accountId',
        pages: offset({ offset: 'startAt', size: { name: 'maxResults', max: 1000, usual: 50 } }),
      },
      issue_fields: { pages: single() },
      issues: {
        at: 'issues',
        needs: { jql: /[<>=]/ },
        pages: token({
          send: 'nextPageToken',
          told: 'nextPageToken',
          size: { name: 'maxResults', max: 100, usual: 50 },
        }),
      },
      issue_comments: {
        at: 'comments',
        of: { issueIdOrKey: 'issues.id' },
        pages: offset({
          offset: 'startAt',
          size: { name: 'maxResults', max: 100, usual: 50 },
          total: 'total',
        }),
      },
      issue_transitions: { at: 'transitions', of: { issueIdOrKey: 'issues.id' }, pages: single() },
      issue_worklogs: {
        at: 'worklogs',
        of: { issueIdOrKey: 'issues.id' },
        pages: offset({
          offset: 'startAt',
          size: { name: 'maxResults', max: 5000, usual: 5000 },
          total: 'total',
        }),
      },
    },
  },
  linear: {
    docs: 'linear.app/developers/pagination: Relay connections, first (50) to 250, after, pageInfo',
    base: '',
    credentials: { api_key: 'lin_1' },
    signed: { Authorization: 'lin_1' },
    all: {},
    entities: {
      issues: connection('data.issues.nodes', /\bissues\s*\(/, 250),
      projects: connection('data.projects.nodes', /\bprojects\s*\(/, 250),
      teams: connection('data.teams.nodes', /\bteams\s*\(/, 250),
      workflow_states: connection('data.workflowStates.nodes', /\bworkflowStates\s*\(/, 250),
      users: connection('data.users.nodes', /\busers\s*\(/, 250),
      comments: {
        ...connection('data.issue.comments.nodes', /\bissue\s*\([^]*\bcomments\s*\(/, 250),
        of: { issueId: 'issues.id' },
      },
    },
  },
  github: {
    docs: 'docs.github.com/en/graphql/guides/using-pagination-in-the-graphql-api: first to 100, after, pageInfo',
    base: '',
    credentials: { token: 'ghp_1' },
    signed: { Authorization: 'Bearer ghp_1' },
    edits: {
      values: { username: 'octo', org: 'acme', owner: 'octo', repo: 'tools' },
      // The file has no fields of these.
      entities: Object.fromEntries(
        Object.keys(
          many(
            'repositories org_repositories viewer_repositories branches tags commits releases issues ' +
              'pull_requests discussions stargazers',
          ),
        ).map((entity) => [entity, { key: 'none' }]),
      ),
    },
    all: {},
    entities: {
      repositories: { ...github('user.repositories'), given: { login: 'octo' } },
      organizations: { ...github('user.organizations'), given: { login: 'octo' } },
      org_repositories: { ...github('organization.repositories'), given: { login: 'acme' } },
      users: { ...github('organization.membersWithRole'), given: { login: 'acme' } },
      teams: { ...github('organization.teams'), given: { login: 'acme' } },
      projects: { ...github('organization.projectsV2'), given: { login: 'acme' } },
      viewer_repositories: github('viewer.repositories'),
      ...Object.fromEntries(
        Object.entries({
          releases: 'releases',
          issues: 'issues',
          pull_requests: 'pullRequests',
          labels: 'labels',
          milestones: 'milestones',
          discussions: 'discussions',
        }).map(([entity, field]) => [entity, { ...github(`repository.${field}`), ...tools }]),
      ),
      branches: { ...github('repository.refs', /refs\/heads\//), ...tools, key: 'name' },
      tags: { ...github('repository.refs', /refs\/tags\//), ...tools, key: 'name' },
      commits: { ...github('repository.defaultBranchRef.target.history'), ...tools, key: 'oid' },
      stargazers: { ...github('repository.stargazers'), ...tools, at: 'data.repository.stargazers.edges' },
    },
  },
  notion: {
    docs: 'developers.notion.com/reference/intro#pagination: start_cursor, page_size to 100, has_more, next_cursor',
    base: '',
    credentials: { token: 'ntn_1' },
    signed: { Authorization: 'Bearer ntn_1' },
    headers: { 'Notion-Version': '2025-09-03' },
    all: { at: 'results', pages: notionPages },
    entities: {
      users: {},
      pages: { match: /"value":"page"/ },
      data_sources: { match: /"value":"data_source"/ },
      blocks: { of: { block_id: 'pages.id' } },
      comments: { of: { block_id: 'pages.id' } },
    },
  },
  airtable: {
    docs: 'airtable.com/developers/web/api/list-records: offset is a token in answer and query, pageSize to 100',
    base: '/v0',
    credentials: { personal_access_token: 'pat1' },
    signed: { Authorization: 'Bearer pat1' },
    all: { at: '{entity}' },
    entities: {
      bases: { pages: token({ send: 'offset', told: 'offset', size: { usual: 1000 } }) },
      tables: { pages: single(), of: { base_id: 'bases.id' } },
      records: {
        pages: token({
          send: 'offset',
          told: 'offset',
          size: { name: 'pageSize', max: 100, usual: 100, over: 'refuse' },
        }),
        of: { base_id: 'bases.id', table_id_or_name: 'tables.id' },
      },
    },
  },
  gitlab: {
    docs: 'docs.gitlab.com/api/rest/#pagination: page from 1, per_page to 100 (20), X-Total, Link',
    base: '/api/v4',
    credentials: { access_token: 'glpat-1', api_url: 'gitlab.example' },
    signed: { Authorization: 'Bearer glpat-1' },
    all: {
      pages: numbered({ page: 'page', size: { name: 'per_page', max: 100, usual: 20 }, hasLink: true }),
    },
    entities: {
      ...many('projects users groups'),
      ...many('issues merge_requests commits pipelines project_members project_milestones', {
        of: { project_id: 'projects.id' },
      }),
      ...many('branches tags', { of: { project_id: 'projects.id' }, key: 'name' }),
      releases: { of: { project_id: 'projects.id' }, key: 'tag_name' },
      ...many('group_members group_milestones', { of: { group_id: 'groups.id' } }),
    },
  },
  granola: {
    docs: 'docs.granola.ai/api-reference: page_size 1 to 30 (10), cursor, hasMore',
    base: '',
    credentials: { api_key: 'grn_1' },
    signed: { Authorization: 'Bearer grn_1' },
    all: {},
    entities: {
      notes: {
        at: 'notes',
        pages: token({
          send: 'cursor',
          told: 'cursor',
          more: 'hasMore',
          end: 'null',
          size: { name: 'page_size', max: 30, usual: 10, over: 'refuse' },
        }),
      },
    },
  },
};
