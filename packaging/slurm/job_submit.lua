-- Holds every job of Tenure's partitions at birth and marks it, so that Tenure can adopt it and decide when it runs.
-- Jobs of other partitions are left as they are.
--
-- Lie it beside slurm.conf as job_submit.lua, set JobSubmitPlugins=lua there, and run `scontrol reconfigure`. A site
-- that has a job_submit.lua of its own keeps it, and calls tenure_submit and tenure_modify from there.
--
-- Account, user, --qos, --time-min and --comment stay in the job, where Tenure reads them. What Slurm would forget
-- stands in the mark, which is the job's AdminComment: users can read it, not change it.
--
--     tenure:1 requeue=yes|no|default [hold=user] [priority=N] [nice=N] [signal=WORD] [throttle=N]
--
-- Tenure adds job=N server=WORD when it has adopted the job, or refused: WHY.
--
-- Slurm takes a hold of a plugin for one of the job's user, who may release it: hence slurm_job_modify.

-- Partitions that Tenure schedules. The only lines to change.
local PARTITIONS = { "gpu" }
-- User ids under which Tenure runs (root is always one): they may release jobs and move them.
local TENURE_UIDS = {}

local MARK = "tenure:1"
local NO_NICE = 2147483648 -- what Slurm adds to a --nice

local QOS_MEANS = "tenure: --qos does not order jobs in this partition: the account's budget does, and inside it "
    .. "--priority. It is kept for accounting. (Said once.)"
local PRIORITY_MEANS = "tenure: --priority and --nice order jobs inside your own budget here, and never against "
    .. "another's. (Said once.)"

local ours = {}
for _, name in ipairs(PARTITIONS) do
    ours[name] = true
end
local tenure_uid = { [0] = true }
for _, uid in ipairs(TENURE_UIDS) do
    tenure_uid[uid] = true
end
local told = { qos = {}, priority = {} } -- by user; forgotten when slurmctld starts anew

local function default_partition(part_list)
    for name, part in pairs(part_list) do
        if part.flag_default == 1 then
            return name
        end
    end
    return nil
end

-- How many of the partitions in "a,b" are Tenure's, and how many are not.
local function count(names)
    local mine, other = 0, 0
    for name in string.gmatch(names or "", "[^,%s]+") do
        if ours[name] then
            mine = mine + 1
        else
            other = other + 1
        end
    end
    return mine, other
end

local function tell_once(about, uid, text)
    if not told[about][uid] then
        told[about][uid] = true
        slurm.log_user("%s", text)
    end
end

local function requeue_word(value)
    if value == 1 then
        return "yes"
    end
    return value == 0 and "no" or "default"
end

-- --signal as the script says it, since Slurm shows it to nobody: not to plugins either, when it was typed.
local function signal_word(script)
    for line in string.gmatch(script or "", "[^\n]+") do
        if not string.match(line, "^%s*#") and string.match(line, "%S") then
            return nil
        end
        local word = string.match(line, "^#SBATCH%s.*%-%-signal[=%s]+[\"']?([%w:@]+)")
        if word ~= nil then
            return word
        end
    end
    return nil
end

local function asks_for_gpus(job_desc)
    for _, name in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task" }) do
        if string.find(job_desc[name] or "", "gpu", 1, true) then
            return true
        end
    end
    return false
end

-- What Tenure is going to refuse in the mark, said at once where it can be seen already: srun and salloc would only wait.
local function tell_what_cannot_be_kept(job_desc)
    for _, option in ipairs({
        { "req_nodes", "nodelist" }, { "exc_nodes", "exclude" }, { "licenses", "licenses" },
        { "reservation", "reservation" },
    }) do
        local value = job_desc[option[1]]
        if value ~= nil and value ~= "" then
            slurm.log_user("tenure: --%s=%s cannot be kept in this partition, so the job stays held; submit it without",
                option[2], value)
        end
    end
    if not asks_for_gpus(job_desc) then
        slurm.log_user("tenure: the job asks for no GPUs, so it stays held: Tenure schedules GPUs here; ask for some "
            .. "(--gpus=1), or name another partition")
    end
end

-- Both return slurm.SUCCESS or slurm.ERROR, as the functions that call them do.
function tenure_submit(job_desc, part_list, submit_uid)
    local mine, other = count(job_desc.partition or default_partition(part_list))
    if mine == 0 then
        return slurm.SUCCESS
    end
    if other > 0 then
        slurm.log_user("tenure: --partition=%s mixes a partition that Tenure schedules with one that it does not; "
            .. "name one kind", job_desc.partition)
        return slurm.ERROR
    end
    local mark = MARK .. " requeue=" .. requeue_word(job_desc.requeue)
    local priority, nice = job_desc.priority, job_desc.nice
    if priority == 0 then
        mark = mark .. " hold=user" -- --hold: Tenure waits for its user, too
    elseif priority ~= nil and priority ~= slurm.NO_VAL then
        mark = mark .. string.format(" priority=%d", priority)
    end
    if nice ~= nil and nice ~= slurm.NO_VAL and nice ~= NO_NICE then
        mark = mark .. string.format(" nice=%d", nice - NO_NICE)
    end
    local signal = signal_word(job_desc.script)
    if signal ~= nil then
        mark = mark .. " signal=" .. signal
    end
    local throttle = string.match(job_desc.array_inx or "", "%%(%d+)$")
    if throttle ~= nil then
        mark = mark .. " throttle=" .. throttle
    end
    if string.find(mark, " priority=", 1, true) or string.find(mark, " nice=", 1, true) then
        tell_once("priority", submit_uid, PRIORITY_MEANS)
    end
    if job_desc.qos ~= nil and job_desc.qos ~= "" then
        tell_once("qos", submit_uid, QOS_MEANS)
    end
    if not tenure_uid[submit_uid] then
        tell_what_cannot_be_kept(job_desc)
    end
    job_desc.admin_comment = mark
    job_desc.priority = 0
    return slurm.SUCCESS
end

function tenure_modify(job_desc, job_rec, part_list, modify_uid)
    if tenure_uid[modify_uid] then
        return slurm.SUCCESS
    end
    local was = count(job_rec.partition) > 0
    if job_desc.partition ~= nil and (count(job_desc.partition) > 0) ~= was then
        slurm.log_user("tenure: a job cannot be moved into a partition that Tenure schedules, nor out of one; "
            .. "submit it there")
        return slurm.ERROR
    end
    local priority = job_desc.priority
    if was and priority ~= nil and priority ~= slurm.NO_VAL and priority ~= 0 then
        slurm.log_user("tenure: jobs of this partition start when Tenure says so; `tenure release` ends your own hold")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    return tenure_submit(job_desc, part_list, submit_uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return tenure_modify(job_desc, job_rec, part_list, modify_uid)
end

return slurm.SUCCESS
