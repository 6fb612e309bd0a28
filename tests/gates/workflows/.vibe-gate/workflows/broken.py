async def x(wf):
    return (
